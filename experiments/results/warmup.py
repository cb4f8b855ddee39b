"""Which requests count: those that arrive after the warm-up."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sim.errors import ConfigError
from sim.workload import Workload

if TYPE_CHECKING:
    import pandas as pd

BoolArray = npt.NDArray[np.bool_]


def warmup_of(config: Mapping[str, Any]) -> tuple[float, int]:
    """Length of the warm-up of a job: simulated seconds, and requests; 0 where there is none."""
    trace = config.get("trace") or {}
    return float(trace.get("warmup_s") or 0), int(trace.get("warmup_requests") or 0)


def refuse_endless_warmup(workload: Workload, warmup_s: float, warmup_requests: int) -> None:
    """A warm-up must leave requests that count.

    Raises:
        ConfigError: all requests arrive before its end.
    """
    n = workload.num_requests
    if warmup_requests >= n:
        raise ConfigError(
            f"trace.warmup_requests={warmup_requests}: the trace has {n:,} requests, so none would "
            "count; give fewer"
        )
    last_s = float(workload.arrival_s[-1])
    if warmup_s > last_s and not workload.is_closed_loop:
        raise ConfigError(
            f"trace.warmup_s={warmup_s:g}: the last request arrives at {last_s:.9g} s, so none "
            "would count; give a shorter time"
        )


def warmup_flags(is_counted: BoolArray) -> list[dict[str, Any]]:
    """What a reader must know of requests that do not count."""
    num_requests = int(np.count_nonzero(~is_counted))
    if not num_requests:
        return []
    text = f"the first {num_requests:,} requests warm the caches and count in no figure of requests"
    return [{"flag": "warmup", "num_requests": num_requests, "text": text}]


def counted(requests: "pd.DataFrame", config: Mapping[str, Any]) -> "pd.DataFrame":
    """Rows of requests.parquet that arrive after the warm-up.

    Args:
        requests: with `request_id` and `arrival_s`.
        config: configuration of the job.
    """
    warmup_s, num_requests = warmup_of(config)
    if not warmup_s and not num_requests:
        return requests
    is_late = ~(requests["arrival_s"] < warmup_s)
    return requests[is_late & (requests["request_id"] >= num_requests)]
