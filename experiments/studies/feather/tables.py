"""Jobs that write down what Feather learned, one per seed, and jobs that begin with it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.studies.base import Bench
from experiments.studies.conduct import JOBS
from experiments.studies.feather.cell import Cell
from experiments.studies.measured import Scale
from experiments.studies.runs import Case
from experiments.sweep.replication import replication_seed
from sim.errors import ConfigError

TABLES = "tables"
"""Folder of the learned tables."""

NUM_TAUGHT = 12_000
"""Requests of a job that teaches (ours): two to six minutes of simulated time under Poisson
arrivals, since Feather is said to converge in about 100 s."""

TAUGHT_FROM = 1000
"""First replication of jobs that teach a table for others: none of those serves its requests."""


def seed_cases(
    bench: Bench,
    cell: Cell,
    num_seeds: int,
    first: int = 0,
    more: Sequence[Mapping[str, str]] | None = None,
) -> list[Case]:
    """A job per seed, of the same draws as the replications of one job.

    Args:
        bench: where they run; a seed that the user gave is the one that all others follow from.
        cell: the job.
        num_seeds: how many.
        first: replication of the first one.
        more: further keys of each of them.
    """
    case = cell.case(Scale(num_requests=cell.num_requests or NUM_TAUGHT, num_seeds=1))
    base_seed = bench.runner.job(case).seed
    added: Sequence[Mapping[str, str]] = more or [{}] * num_seeds
    return [
        Case(
            f"{case.folder}-{first + k}",
            (*case.overrides, *(f"{key}={value}" for key, value in added[k].items())),
            (f"seed={replication_seed(base_seed, first + k)}",),
        )
        for k in range(num_seeds)
    ]


def teach(bench: Bench, cells: Sequence[Cell], num_seeds: int, first: int) -> list[list[Path]]:
    """Run jobs that write what they learned, and return their tables, by cell and seed.

    Raises:
        FlocksimError: a job cannot run, or it had nothing to learn.
        KeyboardInterrupt: Ctrl-C came; what is complete stays.
    """
    tables = [_table_paths(bench, cell, num_seeds, first) for cell in cells]
    (bench.directory / TABLES).mkdir(parents=True, exist_ok=True)
    cases = []
    for cell, paths in zip(cells, tables, strict=True):
        options = [{"batching.state_out": _quoted(path)} for path in paths]
        for case, path in zip(
            seed_cases(bench, cell, num_seeds, first, options), paths, strict=True
        ):
            cases.append(case)
            if not path.is_file():  # the key of a job does not know of the file that it wrote
                (bench.directory / JOBS / case.folder / "result.json").unlink(missing_ok=True)
    bench.runner.run(cases)
    for path in (path for paths in tables for path in paths):
        if not path.is_file():
            raise ConfigError(f"{path.stem}: no decision was rewarded, so nothing was learned")
    return tables


def _table_paths(bench: Bench, cell: Cell, num_seeds: int, first: int) -> list[Path]:
    """Where the tables of a cell are, by seed."""
    folder = cell.case(Scale(num_requests=1, num_seeds=1)).folder
    places = range(first, first + num_seeds)
    return [bench.directory / TABLES / f"{folder}-{place}.json" for place in places]


def taught_cases(bench: Bench, cell: Cell, tables: Sequence[Path], *, learns: bool) -> list[Case]:
    """Jobs that begin with a table each, on the draws of the first replications.

    Args:
        bench: where they run.
        cell: the job; the label of its policy says what taught it.
        tables: of each seed.
        learns: whether they go on learning; else the table is used as it is.
    """
    options = [
        {"batching.state_in": _quoted(path), "batching.learn": str(learns).lower()}
        for path in tables
    ]
    return seed_cases(bench, cell, len(tables), 0, options)


def _quoted(path: Path) -> str:
    """A path as the value of an override."""
    return f"'{path.resolve()}'"
