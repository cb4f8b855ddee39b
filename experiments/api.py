"""flocksim from Python: run, sweep, load, compare and plot, in a notebook or a script.

    from experiments import api
    runs = api.sweep("routing=round_robin,jsq", "trace.rate_scale=0.5,1", "seed=0,1,2")
    api.compare(runs, baseline="round_robin")
    api.plot(runs, "latency_vs_rate")

Overrides are those of the command line. Mistakes raise FlocksimError with one clear line. Nothing
heavy is imported before it is used.
"""

import atexit
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.errors import ConfigError, FlocksimError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from experiments.results.load import Run

__all__ = [
    "compare",
    "compose",
    "decisions",
    "load",
    "metrics",
    "plot",
    "report",
    "requests",
    "run",
    "steps",
    "sweep",
]

_numbers = count()


def compose(*overrides: str) -> dict[str, Any]:
    """The configuration of a job, resolved, in plain containers.

    Args:
        *overrides: as on the command line, for example ``"routing=jsq"``, ``"seed=1"``.

    Raises:
        FlocksimError: an option or key does not exist, or a value has the wrong form.
    """
    _refuse_odd(overrides)
    return _composed(overrides)[0]


def run(*overrides: str, directory: str | Path | None = None, progress: bool = True) -> "Run":
    """Simulate one job.

    Args:
        *overrides: as on the command line.
        directory: where its files go; None takes a temporary one, removed at the end of the
            process.
        progress: show a bar where standard error is a terminal.

    Raises:
        FlocksimError: the job cannot run or its files cannot be written.
        KeyboardInterrupt: it was stopped; what it had done by then is in its directory.
    """
    from experiments.job import run_job
    from experiments.progress import progress_bar
    from experiments.results.load import load_run

    _refuse_odd(overrides, "hydra.run")
    config, choices = _composed(overrides)
    into = _directory(directory)
    show_progress = progress_bar if progress else lambda *_: nullcontext()
    done = run_job(config, choices, list(overrides), into, show_progress=show_progress)
    if done.is_interrupted:
        raise KeyboardInterrupt
    return load_run(into)


def sweep(
    *overrides: str, directory: str | Path | None = None, workers: int | None = None
) -> "list[Run]":
    """Simulate every combination of the values given, on all cores.

    Jobs that cannot run are among the results, with their status and reason. With a directory,
    jobs that it already holds are not run again.

    Args:
        *overrides: as on the command line; several values separated by commas make a sweep.
        directory: where the jobs' directories go; None takes a temporary one.
        workers: processes; None takes one per core.

    Returns:
        The jobs in the order of the sweep: the last key varies fastest.

    Raises:
        FlocksimError: an option or key does not exist.
    """
    from experiments.results.load import load_run
    from experiments.sweep import run_sweep

    _refuse_odd(overrides, "hydra.sweep")
    with _explained(overrides):
        paths = run_sweep(overrides, _directory(directory), workers)
    return [load_run(path) for path in paths]


def load(*paths: str | Path) -> "list[Run]":
    """All jobs under the given directories.

    Raises:
        ResultError: a path does not exist or holds no job, or a file of a job is damaged.
    """
    from experiments.results.load import load_runs

    return load_runs(paths)


def metrics(runs: "Sequence[Run]") -> "pd.DataFrame":
    """One row per run and replication: labels and all metrics; see `metrics_frame`."""
    from experiments.results.load import metrics_frame

    return metrics_frame(runs)


def requests(runs: "Sequence[Run]") -> "pd.DataFrame":
    """One row per request that counts (after the warm-up) of all runs.

    Columns: `run`, `policy` and the keys that vary, those of requests.parquet, then `ttft_s`,
    `tpot_s`, `e2e_s`, `queue_s` and `is_good` (finished and met both SLOs).
    """
    from experiments.stats.per_request import request_latencies

    return _stacked(runs, [request_latencies(one) for one in runs])


def steps(runs: "Sequence[Run]") -> "pd.DataFrame":
    """One row per run of equal steps, of all runs that could be simulated.

    Columns: `run`, `policy` and the keys that vary, then those of steps.parquet.

    Raises:
        ResultError: a run was made without ``output.steps=true``.
    """
    could_run = any(one.metrics for one in runs)
    return _stacked(runs, [one.steps if one.metrics or not could_run else None for one in runs])


def decisions(runs: "Sequence[Run]") -> "pd.DataFrame":
    """One row per routed request, of all runs that could be simulated.

    Columns: `run`, `policy` and the keys that vary, then those of decisions.parquet.

    Raises:
        ResultError: a run was made without ``output.decisions=true``.
    """
    could_run = any(one.metrics for one in runs)
    tables = [one.decisions if one.metrics or not could_run else None for one in runs]
    return _stacked(runs, tables)


def compare(
    runs: "Sequence[Run]",
    baseline: str | None = None,
    *,
    by: str | None = None,
    policy_keys: str | Sequence[str] = (),
    unit_keys: str | Sequence[str] = (),
    level: float = 0.95,
    interval: str = "t",
) -> "pd.DataFrame":
    """Means with intervals, and differences to the baseline with verdicts: all metrics, long.

    Args:
        runs: the jobs; copies of one another count once.
        baseline: policy to compare with; None takes the first.
        by: tenant or slo_class, to break down by it.
        policy_keys: a key, or several, that make different policies instead of different settings.
        unit_keys: a key, or several, whose values are repeats of one setting, as seeds are.
        level: coverage of the intervals.
        interval: t, bootstrap or percentile, of the means.

    Raises:
        ConfigError: no run finished, or a name is none.
    """
    from experiments.compare.build import compare_runs
    from experiments.results.load import without_copies

    kept, copies = without_copies(runs)
    return compare_runs(
        kept,
        copies,
        baseline=baseline,
        by=by,
        policy_keys=_several(policy_keys),
        unit_keys=_several(unit_keys),
        level=level,
        interval=interval,
    )[0]


def report(
    runs: "Sequence[Run]", baseline: str | None = None, metrics: str | Sequence[str] | None = None
) -> None:
    """Print the tables and notes of `flocksim-compare`.

    Args:
        runs: the jobs; copies of one another count once.
        baseline: policy to compare with; None takes the first.
        metrics: a name, or several, with or without unit, families such as "ttft", or "all".

    Raises:
        ConfigError: no run finished, or a name is none.
    """
    from experiments.compare.build import compare_runs
    from experiments.compare.terminal import print_report
    from experiments.results.load import without_copies
    from experiments.summary import make_console

    kept, copies = without_copies(runs)
    names = None if metrics is None else _several(metrics)
    made = compare_runs(kept, copies, baseline=baseline, metrics=names)[1]
    print_report(made, make_console())


def plot(runs: "Sequence[Run]", name: str, **options: Any) -> "Figure":
    """A figure; names and options are those of `experiments.figures`.

    Raises:
        FlocksimError: there is no such figure, or the runs do not hold its data.
    """
    from experiments.figures import figure

    return figure(name, runs, **options)


def _composed(overrides: Sequence[str]) -> tuple[dict[str, Any], dict[str, str]]:
    from experiments.composing import compose_config

    with _explained(overrides):
        return compose_config(overrides)


@contextmanager
def _explained(overrides: Sequence[str]) -> Iterator[None]:
    """Hydra's errors as ours, in one line."""
    from experiments.hydra_errors import explain

    try:
        yield
    except FlocksimError:
        raise
    except Exception as error:
        line = explain(error, overrides)
        if line is None:
            raise
        raise ConfigError(line.replace("add -m for a sweep", "use sweep()")) from error


def _refuse_odd(overrides: Sequence[str], section: str | None = None) -> None:
    """Refuse what is no text, and where to write: there is an argument for that."""
    for item in overrides:
        if not isinstance(item, str):
            raise ConfigError(f'{item!r}: overrides are texts such as "seed=1", one argument each')
        if section is not None and item.startswith(f"{section}."):
            raise ConfigError(f"{item}: has no effect here, give directory=... instead")


def _several(names: str | Sequence[str]) -> Sequence[str]:
    """Names; one alone need not stand in a list."""
    return (names,) if isinstance(names, str) else names


def _directory(directory: str | Path | None) -> Path:
    return _temporary() / str(next(_numbers)) if directory is None else Path(directory)


@cache
def _temporary() -> Path:
    """A directory that lasts as long as the process."""
    made = tempfile.mkdtemp(prefix="flocksim-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


def _stacked(runs: "Sequence[Run]", tables: "Sequence[pd.DataFrame | None]") -> "pd.DataFrame":
    """Tables of runs below one another, with the labels of each run in front."""
    import pandas as pd

    from experiments.results.labels import label_runs, names_of

    labels = label_runs(runs)
    found: list[pd.DataFrame] = []
    for row, (name, table) in enumerate(zip(names_of(runs), tables, strict=True)):
        if table is not None:
            head: dict[str, Any] = {"run": name, "policy": labels.policies[row]}
            varying = {**labels.settings, **labels.parameters}
            head |= {key: column[row] for key, column in varying.items()}
            found.append(pd.DataFrame(head, index=table.index).join(table))
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()
