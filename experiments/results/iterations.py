"""What decode iterations waited for where prefill and decode are apart, and what fed them.

Figures of the machine: over the whole run and all instances that take KV from others, steps with at
least one decode. Bubbles are in `experiments.results.executor_metrics`.
"""

import numpy as np
import numpy.typing as npt

from experiments.deployment import Deployment
from policies.batching.aligned.feeding_log import FeedingLog
from sim.disaggregation.records import HandoverRecords
from sim.metrics import Metrics
from sim.records import SimulationResult

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

FAST_STEP_S = 30e-3
READY_S = 5e-3
"""Source: AlignedServe reports the shares of iterations that take less, and that were prepared in
less."""


def iteration_metrics(result: SimulationResult, deployment: Deployment) -> Metrics:
    """Figures of iterations and of batches; nothing where one instance does both.

    Returns:
        `iteration_fast_ratio`: share of the iterations below `FAST_STEP_S`;
        `prepared_fast_ratio`: share that waited less than `READY_S` for the KV of a request that
        joins in them, from the time at which it was asked for on the decode instance (0 if nobody
        joins); `prepare_p99_s`; and with a controller of batches those of `_of_batches`.
    """
    parts, handover = deployment.spec.disaggregation, result.handover
    if parts is None or handover is None:
        return {}
    feeder = getattr(parts.feeder, "last", None)
    log = getattr(feeder, "log", None)
    if not isinstance(log, FeedingLog):
        log = None
    first = deployment.spec.num_instances - parts.num_mixed
    ids = range(first, len(result.instances))
    has_decodes = {index: _has_decodes(result, index) for index in ids}
    durations_s = np.concatenate(
        [_durations_s(result, index)[steps] for index, steps in has_decodes.items()]
    )
    waits_s = np.concatenate(
        [_waits_s(result, handover, index, log)[steps] for index, steps in has_decodes.items()]
    )
    found: Metrics = {
        "iteration_fast_ratio": _share(durations_s < FAST_STEP_S),
        "prepared_fast_ratio": _share(waits_s < READY_S),
        "prepare_p99_s": float(np.percentile(waits_s, 99)) if len(waits_s) else None,
    }
    return found if log is None else {**found, **_of_batches(result, log, has_decodes)}


def _of_batches(
    result: SimulationResult, log: FeedingLog, has_decodes: dict[int, npt.NDArray[np.bool_]]
) -> Metrics:
    """What a controller of batches did.

    Returns:
        `num_batches`; `aligned_batches_ratio`: share of them formed by length; `batch_requests`:
        mean of those that they began with; `topped_up_ratio`: share of the requests that joined
        later; `num_evicted`; `num_sent_back`; `mixed_batches_ratio`: share of the iterations in
        which requests of several batches met; `host_pool_mean_bytes`: over time.
    """
    labels = np.full(result.workload.num_requests, -1, dtype=np.int64)
    for row, batch in log.batch_of.items():
        labels[row] = batch
    num_mixed = 0
    for index, steps in has_decodes.items():
        rows, first, last = result.requests.intervals(index)
        distinct = distinct_labels(labels[rows], first - 1, last - 1, len(steps))
        num_mixed += int(np.count_nonzero((distinct > 1) & steps))
    num_steps = sum(int(np.count_nonzero(steps)) for steps in has_decodes.values())
    joined = log.num_batch_requests + log.num_topped_up
    return {
        "num_batches": log.num_batches,
        "aligned_batches_ratio": _ratio(log.num_aligned, log.num_batches),
        "batch_requests": _ratio(log.num_batch_requests, log.num_batches),
        "topped_up_ratio": _ratio(log.num_topped_up, joined),
        "num_evicted": log.num_evicted,
        "num_sent_back": log.num_sent_back,
        "mixed_batches_ratio": _ratio(num_mixed, num_steps),
        "host_pool_mean_bytes": _ratio(log.pool_byte_seconds, result.end_s),
    }


def distinct_labels(label: IntArray, first: IntArray, last: IntArray, num_steps: int) -> IntArray:
    """Different labels in each step. Shape (steps,).

    Args:
        label: of each stretch of steps. Shape (k,), as the next two.
        first: its first step, from 0.
        last: its last step.
        num_steps: of the instance.
    """
    if not len(label):
        return np.zeros(num_steps, dtype=np.int64)
    order = np.lexsort((first, label))
    label, first, last = label[order], first[order], np.minimum(last[order], num_steps - 1)
    # Stretches of one label that overlap or touch count as one.
    shift = np.unique(label, return_inverse=True)[1] * (num_steps + 2)
    ends = np.maximum.accumulate(last + shift) - shift
    opens = np.append(True, (label[1:] != label[:-1]) | (first[1:] > ends[:-1] + 1))
    at = np.flatnonzero(opens)
    closing = np.append(at[1:] - 1, len(label) - 1)
    rise = np.bincount(first[at], minlength=num_steps + 1)
    fall = np.bincount(ends[closing] + 1, minlength=num_steps + 1)
    found: IntArray = np.cumsum(rise - fall)[:num_steps]
    return found


def _has_decodes(result: SimulationResult, index: int) -> npt.NDArray[np.bool_]:
    """Steps of an instance in which somebody decodes. Shape (steps,)."""
    one = result.instances[index]
    per_run = one.run_column("num_decodes") > 0
    found: npt.NDArray[np.bool_] = np.repeat(per_run, one.run_column("num_steps"))
    return found[: len(one.step_end_s)]


def _durations_s(result: SimulationResult, index: int) -> FloatArray:
    one = result.instances[index]
    durations_s: FloatArray = one.step_end_s - one.step_start_s
    return durations_s


def _waits_s(
    result: SimulationResult, handover: HandoverRecords, index: int, log: FeedingLog | None
) -> FloatArray:
    """Longest wait for the KV of a request that begins in a step, seconds. Shape (steps,)."""
    asked_s = handover.transfer_start_s.copy()
    if log is not None:
        for row, time_s in log.first_asked_s.items():
            asked_s[row] = time_s
    requests, num_steps = result.requests, len(result.instances[index].step_end_s)
    is_here = (requests.instance == index) & handover.is_handed_over
    begin = requests.first_step - 1
    rows = np.flatnonzero(is_here & (begin >= 0) & (begin < num_steps))
    waits_s = np.zeros(num_steps)
    np.maximum.at(waits_s, begin[rows], (handover.transfer_end_s - asked_s)[rows])
    return waits_s


def _share(values: npt.NDArray[np.bool_]) -> float | None:
    return float(values.mean()) if len(values) else None


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
