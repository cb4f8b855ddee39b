"""A measured run from a file of any of the formats."""

from collections.abc import Callable
from pathlib import Path

from experiments.calibrate.against.from_aiperf import read_aiperf
from experiments.calibrate.against.from_csv import read_csv
from experiments.calibrate.against.from_guidellm import read_guidellm
from experiments.calibrate.against.from_vllm import read_vllm
from experiments.calibrate.against.measured_run import MeasuredRun
from sim.errors import ConfigError
from traces.readers.reading import Reading

OF_SEVERAL_RUNS: dict[str, Callable[[Reading, int | None], MeasuredRun]] = {
    "vllm_bench": read_vllm,
    "guidellm": read_guidellm,
}
"""Formats whose files may hold several runs."""

OF_ONE_RUN: dict[str, Callable[[Reading], MeasuredRun]] = {"aiperf": read_aiperf, "csv": read_csv}

FORMATS = (*OF_SEVERAL_RUNS, *OF_ONE_RUN)


def read_run(path: str, name: str | None, run: int | None) -> MeasuredRun:
    """Read a measured run.

    Args:
        path: the file, plain, gzip or zstd.
        name: its format; None tells it from the content.
        run: which of several runs in it, from 1; None if there is one.

    Raises:
        ConfigError: the format is not told or holds no latencies, or there is nothing to choose.
        TraceFormatError: the file is damaged.
    """
    found = _guessed(path) if name is None else name
    reading = Reading(Path(path))
    if found in OF_SEVERAL_RUNS:
        return OF_SEVERAL_RUNS[found](reading, run)
    if run is not None:
        raise ConfigError(f"--run {run} has no effect: a file of format {found} holds one run")
    return OF_ONE_RUN[found](reading)


def _guessed(path: str) -> str:
    from experiments.trace_cli.guess import guess_format

    found = guess_format(path, FORMATS)
    if found not in FORMATS:
        raise ConfigError(
            f"{path}: is a trace of format {found}, which holds no measured latencies; allowed: "
            f"{', '.join(FORMATS)} (--format names one)"
        )
    return found
