"""Recordings, whose requests are the same for every seed."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from experiments.schema.job import JobConfig
from sim.errors import ConfigError, FlocksimError
from traces.build import one_line_errors
from traces.transforms import transform


def refuse_seeds_of_a_recording(job: JobConfig, num_seeds: int) -> None:
    """Refuse several seeds where all of them have the same requests.

    Args:
        job: a job of the study.
        num_seeds: runs per point.

    Raises:
        ConfigError: they do; replications would differ.
    """
    if num_seeds > 1 and not _is_drawn(job):
        raise ConfigError(
            f"--seeds {num_seeds}: this trace is a recording, the same requests for every seed; "
            f"give replications={num_seeds * job.replications} instead, which draws its stretches "
            "anew"
        )


def _is_drawn(job: JobConfig) -> bool:
    """Whether something about the trace is drawn; one that cannot be loaded is left to its job."""
    with suppress(FlocksimError), one_line_errors():
        table = job.trace.build().load(job.seed)
        if table.num_requests:
            table = transform(table, seed=job.seed, **asdict(job.trace_options))
            return _has_seed(table.provenance)
    return True


def _has_seed(value: Any) -> bool:
    if isinstance(value, Mapping):
        return "seed" in value or any(map(_has_seed, value.values()))
    return isinstance(value, list | tuple) and any(map(_has_seed, value))
