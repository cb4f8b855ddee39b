"""Sweeps over many jobs on all cores, and the replications inside one job."""

from collections.abc import Sequence
from pathlib import Path


def run_sweep(overrides: Sequence[str], directory: Path, workers: int | None = None) -> list[Path]:
    """Run every combination of values; see `experiments.sweep.run.run_sweep`."""
    from experiments.sweep import run

    return run.run_sweep(overrides, directory, workers)
