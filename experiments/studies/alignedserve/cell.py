"""One job of a study of AlignedServe, and what it measured."""

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.studies.alignedserve.measures import of_metrics, of_requests
from experiments.studies.alignedserve.mixes import MAX_CONTEXT_TOKENS, SCALES, Mix
from experiments.studies.alignedserve.systems import System
from experiments.studies.base import Bench
from experiments.studies.conduct import JOBS
from experiments.studies.measured import Measured, Scale
from experiments.studies.runs import Case

DECIDES = (
    *("trace", "cluster", "model", "kernel", "routing", "batching", "replications", "experiment"),
    *("engine.max_num_seqs", "engine.max_num_batched_tokens"),
)
"""Keys that all these studies set themselves; the GPU may be another one."""

TWO_GPUS = ("opt_30b",)
"""Models whose instances span two GPUs: on one, a batch of OPT-30B could hold 4.4K tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What all systems are compared on.

    Attributes:
        label: in tables.
        at: abscissa in figures; None: in tables alone.
        mix: lengths of the requests.
        model: by its catalogue name.
        options: further keys of a job, KEY=VALUE.
        pool_options: likewise, for systems with a pool.
        place: of both in directories.
        times: so many times the requests of the size.
    """

    label: str
    at: float | None
    mix: Mix
    model: str = "opt_13b"
    options: tuple[str, ...] = ()
    pool_options: tuple[str, ...] = ()
    place: str = ""
    times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A job, replicated.

    Attributes:
        setting: what is compared on.
        system: which system.
        rate_per_s: Poisson arrivals; None: all requests are there at once.
    """

    setting: Setting
    system: System
    rate_per_s: float | None = None

    def case(self, scale: Scale) -> Case:
        """The job."""
        setting = self.setting
        num_gpus = 2 if setting.model in TWO_GPUS else 1
        arrivals = "at_once" if self.rate_per_s is None else "poisson"
        parts = (setting.mix.name, setting.model, setting.place, arrivals, self.system.folder)
        return Case(
            "-".join(part for part in parts if part),
            (
                f"model={setting.model}",
                f"model.max_context_tokens={MAX_CONTEXT_TOKENS}",
                "hardware=h100_sxm",
                *setting.mix.overrides(setting.times * scale.num_requests, self.rate_per_s),
                *self.system.overrides,
                f"cluster.tensor_parallel={num_gpus}",
                f"replications={scale.num_seeds}",
                *setting.options,
                *(setting.pool_options if self.system.has_pool else ()),
            ),
        )


Found = Measured[Cell]


def run_cells(bench: Bench, cells: Sequence[Cell]) -> list[Found]:
    """Run jobs and measure, in the same order.

    Raises:
        FlocksimError: a job cannot run.
        KeyboardInterrupt: Ctrl-C came; what is complete stays.
    """
    import pandas as pd

    cases = [cell.case(SCALES[bench.size]) for cell in cells]
    found = []
    for cell, case, run in zip(cells, cases, bench.runner.run(cases), strict=True):
        table = pd.read_parquet(bench.directory / JOBS / case.folder / "requests.parquet")
        if "replication" not in table.columns:
            table["replication"] = 0
        by_seed = dict(iter(table.groupby("replication")))
        values = tuple(
            {**of_metrics(metrics), **of_requests(by_seed[k])}
            for k, metrics in enumerate(run.metrics)
        )
        found.append(Found(cell, values))
    return found
