"""Requests in the system over time, derived from the records: imbalance and regime."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from sim.records import SimulationResult

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

_MAX_CELLS = 4_000_000
_NUM_BINS = 20
_T_95_ONE_SIDED_18 = 1.7341
"""Student's t, 95th percentile at 18 degrees of freedom (20 bins less two fitted parameters)."""

MIN_SWELL_RATIO = 1.5
"""Mean time to first token of the last quarter of the requests, relative to the first half, that a
trend must reach to count as overload. Linear growth from an empty start gives 3.5."""

MAX_DRAIN_RATIO = 0.1
"""Share of the makespan that draining the queue after the last arrival may take in a stable run."""


def _events(result: SimulationResult) -> tuple[FloatArray, IntArray, IntArray]:
    """Arrivals and departures at instances in order of time: (time, instance, +1 or -1)."""
    requests = result.requests
    inside = np.flatnonzero(requests.instance >= 0)
    gone = inside[requests.is_completed[inside]]
    times = np.concatenate([requests.arrival_s[inside], requests.finish_s[gone]])
    where = np.concatenate([requests.instance[inside], requests.instance[gone]])
    steps = np.concatenate([np.ones(len(inside), np.int64), np.full(len(gone), -1)])
    order = np.argsort(times, kind="stable")
    return times[order], where[order], steps[order]


def _sizes(result: SimulationResult) -> Iterator[tuple[FloatArray, IntArray]]:
    """Chunks of (durations, requests per instance during them); shapes (k,), (k, instances)."""
    times, where, steps = _events(result)
    num_instances = len(result.instances)
    rows = max(1024, _MAX_CELLS // num_instances)
    carried = np.zeros(num_instances, dtype=np.int64)
    for first in range(0, len(times) - 1, rows):
        last = min(first + rows, len(times) - 1)
        changes = np.zeros((last - first, num_instances), dtype=np.int64)
        changes[np.arange(last - first), where[first:last]] = steps[first:last]
        sizes = np.cumsum(changes, axis=0)
        sizes += carried
        carried = sizes[-1].copy()
        yield np.diff(times[first : last + 1]), sizes


def load_imbalance_ratio(result: SimulationResult) -> float | None:
    """Time mean of (max over instances / mean over instances) of requests in the system.

    1 is perfect balance, the number of instances is the worst. Times at which the whole system is
    empty do not count; None if it always is, or if instances have different roles.
    """
    if result.handover is not None:
        return None
    weighted = total = 0.0
    for durations, sizes in _sizes(result):
        sums = sizes.sum(axis=1)
        is_busy = sums > 0
        ratios = sizes.max(axis=1)[is_busy] * (sizes.shape[1] / sums[is_busy])
        weighted += float((ratios * durations[is_busy]).sum())
        total += float(durations[is_busy].sum())
    return weighted / total if total > 0 else None


def regime_of(result: SimulationResult) -> str:
    """Whether the run's averages describe a steady system.

    *closed_loop*: a fixed number of users sends the requests. A cluster that is too slow then slows
    the arrivals down, so there is nothing to judge. In every other run it is *overloaded*,
    *backlogged* or *stable*.

    *overloaded*: over the last half of the requests the time to first token grows from request to
    request, with a slope that is positive at 95 % confidence (20 means over equal numbers of
    requests, regressed on their order, the error widened for the correlation of neighbouring
    means), and the last quarter waits at least `MIN_SWELL_RATIO` times as long as the first half.
    By Little's law that is growth of the queue, corrected for an arrival rate that rises or falls;
    in a run that was cut short the number in the system is taken instead. Requests that wait for
    others to end are left out: they come the more slowly the longer the queue, and towards the end
    of a run they are all that comes. *backlogged*: after the last arrival it takes more than
    `MAX_DRAIN_RATIO` of the makespan, and longer than requests usually wait, until every one has
    its first token (the decoding of the last answers does not count), or requests were left
    unfinished. Where prefill and decode are apart, the decode batch counts in place of the first
    token.

    Of 200 M/M/1 queues of 2,000 requests 1 % are called overloaded at load 0.7, 6 % at 0.9 and
    100 % at 1.2 (400 requests: 6, 12 and 88 %).
    """
    if result.workload.concurrency is not None:
        return "closed_loop"
    if _is_growing(result):
        return "overloaded"
    if result.num_unfinished:
        return "backlogged"
    is_done = result.requests.is_completed
    if not is_done.any():
        return "stable"
    first_s, last_s = result.requests.arrival_span_s
    drain_s = float(_begun_s(result)[is_done].max() - last_s)
    makespan_s = float(result.requests.finish_s[is_done].max() - first_s)
    is_usual = drain_s <= MIN_SWELL_RATIO * float(np.median(_waits(result, is_done)))
    is_short = drain_s <= MAX_DRAIN_RATIO * makespan_s
    return "stable" if is_usual or is_short else "backlogged"


def _is_growing(result: SimulationResult) -> bool:
    after = result.workload.after
    is_judged = np.ones(len(result.requests.status), np.bool_) if after is None else after < 0
    if result.num_unfinished:
        load = _sizes_at_arrivals(result, is_judged)
    else:
        load = _waits(result, is_judged & result.requests.is_completed)
    if len(load) < 4 * _NUM_BINS:
        return False
    half, quarter = len(load) // 2, len(load) // 4
    if load[-quarter:].mean() < MIN_SWELL_RATIO * load[:half].mean():
        return False
    groups = np.array_split(load[half:], _NUM_BINS)
    return _has_upward_trend(np.array([group.mean() for group in groups]))


def _waits(result: SimulationResult, is_counted: BoolArray) -> FloatArray:
    """Times until some finished requests had begun, by row, seconds."""
    wait_s: FloatArray = _begun_s(result) - result.requests.arrival_s
    return wait_s[is_counted]


def _begun_s(result: SimulationResult) -> FloatArray:
    """When requests wait no more: first token, or for those handed over their decode batch."""
    begun_s = result.requests.first_token_s
    if result.handover is None:
        return begun_s
    joined_s = result.handover.decode_start_s
    return np.where(result.handover.is_handed_over & ~np.isnan(joined_s), joined_s, begun_s)


def _sizes_at_arrivals(result: SimulationResult, is_counted: BoolArray) -> FloatArray:
    """Requests in the system just after the arrival of some requests, in order of arrival."""
    _, _, steps = _events(result)
    sizes = np.cumsum(steps)[steps > 0].astype(np.float64)
    inside = np.flatnonzero(result.requests.instance >= 0)
    arrived = inside[np.argsort(result.requests.arrival_s[inside], kind="stable")]
    sizes_of_some: FloatArray = sizes[is_counted[arrived]]
    return sizes_of_some


def _has_upward_trend(means: FloatArray) -> bool:
    """Whether a line through `_NUM_BINS` means rises, at 95 % confidence."""
    x = np.arange(_NUM_BINS) - (_NUM_BINS - 1) / 2
    slope = float((x * means).sum() / (x * x).sum())
    residuals = means - means.mean() - slope * x
    squares = float((residuals * residuals).sum())
    error = (squares / (_NUM_BINS - 2) / float((x * x).sum())) ** 0.5
    if squares > 0:
        correlation = float((residuals[1:] * residuals[:-1]).sum()) / squares
        correlation = min(max(correlation, 0.0), 0.9)
        error *= ((1 + correlation) / (1 - correlation)) ** 0.5
    return bool(slope > _T_95_ONE_SIDED_18 * error)


def mean_number_in_system(result: SimulationResult) -> float:
    """Integral over time of the number in the system, request-seconds (for Little's law)."""
    times, _, steps = _events(result)
    return float((np.cumsum(steps)[:-1] * np.diff(times)).sum())
