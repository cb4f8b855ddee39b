"""Contexts of the decodes of some steps, worked out from the records of the requests."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hwmodels.iteration_bubbles import Lengths
from sim.kv_usage import tokens_before
from sim.records import SimulationResult

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MOST_STEPS = 2048
"""Steps of a run that are looked at, evenly spaced among those that only decode."""


@dataclass(frozen=True, slots=True)
class SampledSteps:
    """Decode-only steps.

    Attributes:
        lengths: their contexts.
        duration_s: how long they took, seconds. Shape (steps,).
    """

    lengths: Lengths
    duration_s: FloatArray


def sampled_decode_steps(result: SimulationResult) -> SampledSteps | None:
    """Some decode-only steps of all instances.

    None if there are none, or if the requests do not account for them: where decodes may stand
    still in a step, or take place elsewhere.
    """
    wanted = max(1, MOST_STEPS // len(result.instances))
    parts = [_of_instance(result, index, wanted) for index in range(len(result.instances))]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    columns = [np.concatenate([part[k] for part in known]) for k in range(5)]
    if not len(columns[0]):
        return None
    size, total, squares, longest, duration_s = columns
    lengths = Lengths(num_requests=size, context_tokens=total, squares=squares, longest=longest)
    return SampledSteps(lengths, duration_s)


def _of_instance(
    result: SimulationResult, index: int, wanted: int
) -> tuple[FloatArray, ...] | None:
    """Requests, sum, squares, longest and duration of steps; None if they do not add up.

    The first step of an interval completes a prefill, but for a request that was handed over. One
    that comes back after a preemption was computed again, or has kept its KV: the runs tell which.
    """
    found = None
    is_moved = np.zeros(result.workload.num_requests, dtype=np.bool_)
    if result.handover is not None:
        is_moved = result.handover.is_handed_over
    rows = result.requests.intervals(index)[0]
    is_new = np.append(True, rows[1:] != rows[:-1])[: len(rows)]
    for has_kept in (False, True) if is_moved.any() else (False,):
        comes_with_kv = is_moved[rows] & (is_new | has_kept)
        found = found or _as_if(result, index, wanted, is_moved[rows], comes_with_kv)
    return found


def _as_if(
    result: SimulationResult,
    index: int,
    wanted: int,
    is_moved: npt.NDArray[np.bool_],
    comes_with_kv: npt.NDArray[np.bool_],
) -> tuple[FloatArray, ...] | None:
    """The same, if the intervals of some requests begin without a prefill."""
    instance = result.instances[index]
    steps = _decode_only(result, index, wanted)
    ends = len(instance.step_end_s) + 2
    rows, first, last = result.requests.intervals(index)
    begin, end = first + ~comes_with_kv, np.minimum(last, ends - 2) + 1
    offset = result.workload.prompt_tokens[rows] + tokens_before(rows, first, last) - first
    offset += is_moved  # its first token came from elsewhere
    has_steps = begin < end
    begin, end, offset = begin[has_steps], end[has_steps], offset[has_steps]
    sums = [_running(begin, end, offset**power, ends)[steps] for power in (0, 1, 2)]
    size = sums[0]
    total = sums[1] + size * steps
    squares = sums[2] + steps * (2 * sums[1] + size * steps)
    run = np.searchsorted(instance.run_column("first_step"), steps - 1, side="right") - 1
    ahead = steps - 1 - instance.run_column("first_step")[run]
    decodes, contexts = instance.run_column("num_decodes"), instance.run_column("context_tokens")
    if (size != decodes[run]).any() or (total != contexts[run] + ahead * size).any():
        return None
    longest = _largest(begin, end, offset, steps) + steps
    duration_s = instance.step_end_s[steps - 1] - instance.step_start_s[steps - 1]
    return size, total, squares, longest.astype(np.float64), duration_s


def _decode_only(result: SimulationResult, index: int, wanted: int) -> IntArray:
    """Numbers of decode-only steps, from 1, evenly spaced; at most `wanted`."""
    instance = result.instances[index]
    first_step, num_steps = (instance.run_column(name) for name in ("first_step", "num_steps"))
    only = (instance.run_column("num_prefills") == 0) & (instance.run_column("num_decodes") > 0)
    first_step, num_steps = first_step[only], num_steps[only]
    count = int(num_steps.sum())
    places = np.arange(count)
    if count > wanted:
        places = ((np.arange(wanted) + 0.5) * count / wanted).astype(np.int64)
    before = np.cumsum(num_steps) - num_steps
    run = np.searchsorted(before, places, side="right") - 1
    steps: IntArray = first_step[run] + places - before[run] + 1
    return steps


def _running(begin: IntArray, end: IntArray, values: IntArray, num_steps: int) -> FloatArray:
    """Sum of the values of the intervals that hold each step; whole numbers exactly."""
    rise = np.bincount(begin, values.astype(np.float64), num_steps)
    fall = np.bincount(end, values.astype(np.float64), num_steps)
    running: FloatArray = np.cumsum(rise - fall)
    return running


def _largest(begin: IntArray, end: IntArray, offset: IntArray, steps: IntArray) -> IntArray:
    """Largest offset of the intervals that hold each step, which is at least one.

    Intervals are taken from the largest offset on, so that most of them find every step taken.
    """
    found = np.zeros(len(steps), dtype=np.int64)
    following = list(range(len(steps) + 1))  # next step that has none yet
    order = np.argsort(-offset, kind="stable")
    lows = np.searchsorted(steps, begin[order]).tolist()
    highs = np.searchsorted(steps, end[order]).tolist()
    left = len(steps)
    for low, high, value in zip(lows, highs, offset[order].tolist(), strict=True):
        place = _next(following, low)
        while place < high:
            found[place] = value
            following[place] = place + 1
            left -= 1
            place = _next(following, place)
        if not left:
            break
    return found


def _next(following: list[int], place: int) -> int:
    """The first step from `place` on that has none; paths are halved on the way."""
    while following[place] != place:
        following[place] = following[following[place]]
        place = following[place]
    return place
