"""Runs the jobs of a study of Feather and reads what they measured, seed by seed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from experiments.studies.base import Bench
from experiments.studies.conduct import JOBS
from experiments.studies.feather.cell import Cell
from experiments.studies.feather.group_service import service_of
from experiments.studies.feather.load import SCALES, Load
from experiments.studies.feather.measures import (
    IntArray,
    longest_wait_s,
    of_metrics,
    recomputed_tokens,
    served_at_half_time,
)
from experiments.studies.measured import Measured
from experiments.studies.runs import Case, Simulated
from experiments.sweep.replication import load_workload, replicated

if TYPE_CHECKING:
    import pandas as pd


Found = Measured[Cell]


def run_cells(bench: Bench, cells: Sequence[Cell]) -> list[Found]:
    """Run jobs and measure, in the same order.

    Raises:
        FlocksimError: a job cannot run.
        KeyboardInterrupt: Ctrl-C came; what is complete stays.
    """
    scale = SCALES[bench.size]
    cases = [cell.case(scale) for cell in cells]
    runs = bench.runner.run(cases)
    groups: dict[tuple[Load, int | None], list[IntArray]] = {}
    found = []
    for cell, case, run in zip(cells, cases, runs, strict=True):
        key = (cell.load, cell.num_requests)
        if cell.load.num_groups and key not in groups:
            groups[key] = _groups(bench, case, len(run.metrics))
        path = bench.directory / JOBS / case.folder / "requests.parquet"
        found.append(Found(cell, _measured(run, path, cell.load, groups.get(key))))
    return found


def run_seed_by_seed(bench: Bench, jobs: Sequence[tuple[Cell, Sequence[Case]]]) -> list[Found]:
    """Like `run_cells`, where every seed is a job of its own.

    Args:
        bench: where to run.
        jobs: a cell, and its job of each seed; the same place is the same seed in all of them.

    Raises:
        FlocksimError: a job cannot run.
        KeyboardInterrupt: Ctrl-C came; what is complete stays.
    """
    runs = iter(bench.runner.run([case for _, cases in jobs for case in cases]))
    groups: dict[tuple[Load, int | None, int], list[IntArray]] = {}
    found = []
    for cell, cases in jobs:
        values: list[Mapping[str, float]] = []
        for seed, case in enumerate(cases):
            key = (cell.load, cell.num_requests, seed)
            if cell.load.num_groups and key not in groups:
                groups[key] = _groups(bench, case, 1)
            path = bench.directory / JOBS / case.folder / "requests.parquet"
            values += _measured(next(runs), path, cell.load, groups.get(key))
        found.append(Found(cell, tuple(values)))
    return found


def _groups(bench: Bench, case: Case, num_seeds: int) -> list[IntArray]:
    """Group of every request of each seed's trace: the first node of its path."""
    job = bench.runner.job(case)
    workloads = [load_workload(replicated(job, k), k) for k in range(num_seeds)]
    return [one.path_nodes[one.path_offsets[:-1]] for one in workloads]


def _measured(
    run: Simulated, path: Path, load: Load, groups: list[IntArray] | None
) -> tuple[Mapping[str, float], ...]:
    import pandas as pd

    table = pd.read_parquet(path)
    if "replication" not in table.columns:
        table["replication"] = 0
    by_seed = dict(iter(table.groupby("replication")))
    return tuple(
        {
            **of_metrics(metrics),
            **_of_requests(by_seed[k], load, None if groups is None else groups[k]),
        }
        for k, metrics in enumerate(run.metrics)
    )


def _of_requests(requests: "pd.DataFrame", load: Load, groups: IntArray | None) -> dict[str, float]:
    """Measures that need the requests; those of the warm start are left out."""
    is_counted = requests["request_id"].to_numpy() >= load.num_warm
    counted = requests[is_counted]
    values = {"longest_wait_s": longest_wait_s(counted)}
    if groups is None:
        return values
    num_cold = len(np.unique(groups[is_counted])) if not load.num_warm else 0
    served = served_at_half_time(counted, groups[is_counted])
    recomputed = recomputed_tokens(counted, load.prefix_tokens, num_cold)
    return {
        **values,
        "recomputed_tokens": float(recomputed),
        "least_served_ratio": float(served.min()),
        "most_served_ratio": float(served.max()),
        **service_of(counted, groups[is_counted]).values,
    }
