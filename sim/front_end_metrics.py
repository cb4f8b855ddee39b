"""Figures of the front end: the parts of the time to first token, and how busy it was.

The parts are those of finished requests that count; how busy it was is over the whole run.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.front_end_records import engine_view
from sim.records import SimulationResult
from sim.workload import FloatArray

SATURATED_RATIO = 0.95
"""Offered work per second from which a front end counts as saturated: at 95 % load a queue with
constant work waits ten times that work."""

MIN_REQUESTS = 20
"""With fewer requests the work offered per second says nothing about saturation."""


@dataclass(frozen=True, slots=True)
class FrontEndLoad:
    """Seconds of work per second; above 1 the work outgrows the server.

    Attributes:
        num_requests: requests that passed the way in.
        offered_in_ratio: work on the way in / span of the arrivals; infinite if they all come at
            once.
        offered_out_ratio: work on the way out / span of the step ends.
        busy_in_ratio: work on the way in / makespan.
        busy_out_ratio: work on the way out / makespan.
    """

    num_requests: int
    offered_in_ratio: float
    offered_out_ratio: float
    busy_in_ratio: float
    busy_out_ratio: float

    @property
    def busy_ratio(self) -> float:
        """Both ways, as if one process did them; above 1 one process could not have."""
        return self.busy_in_ratio + self.busy_out_ratio

    @property
    def is_saturated(self) -> bool:
        """Whether the front end could not, or hardly, keep up."""
        if self.num_requests < MIN_REQUESTS:
            return False
        worst = max(self.offered_in_ratio, self.offered_out_ratio, self.busy_ratio)
        return worst >= SATURATED_RATIO


def front_end_load(result: SimulationResult) -> FrontEndLoad | None:
    """How busy the front end was; None without one, or if nothing passed it."""
    records = result.front_end
    if records is None:
        return None
    num_requests = int(np.count_nonzero(~np.isnan(records.engine_arrival_s)))
    if not num_requests:
        return None
    first_s, last_s = result.requests.arrival_span_s
    end_s = max([result.end_s, *(float(one.max(initial=0.0)) for one in records.step_delivered_s)])
    steps_s = [one.step_end_s[[0, -1]] for one in result.instances if len(one.step_end_s)]
    out_span_s = float(np.max(steps_s) - np.min(steps_s)) if steps_s else 0.0
    makespan_s = end_s - first_s
    return FrontEndLoad(
        num_requests=num_requests,
        offered_in_ratio=_ratio(records.work_in_s, last_s - first_s),
        offered_out_ratio=_ratio(records.work_out_s, out_span_s),
        busy_in_ratio=_ratio(records.work_in_s, makespan_s),
        busy_out_ratio=_ratio(records.work_out_s, makespan_s),
    )


def front_end_parts(
    result: SimulationResult, is_done: npt.NDArray[np.bool_]
) -> dict[str, FloatArray] | None:
    """Parts of the time to first token of some finished requests, beside their queueing, seconds.

    `frontend_in` (arrival to the engine's queue, hashing included), `prefill` (first admission to
    the end of the step with the first token), `frontend_out` (from there to its delivery). With
    queueing from the engine's queue to first admission they sum to the time to first token. None
    without a front end.
    """
    records, requests = result.front_end, result.requests
    if records is None:
        return None
    return {
        "frontend_in": (records.engine_arrival_s - requests.arrival_s)[is_done],
        "prefill": (requests.first_token_s - requests.admitted_s)[is_done],
        "frontend_out": (records.first_token_s - requests.first_token_s)[is_done],
    }


def queueing_times(result: SimulationResult, is_done: npt.NDArray[np.bool_]) -> FloatArray:
    """First admission less arrival at the engine's queue, of some requests, seconds."""
    requests = engine_view(result).requests
    queued_s: FloatArray = (requests.admitted_s - requests.arrival_s)[is_done]
    return queued_s


def _ratio(work_s: float, span_s: float) -> float:
    if span_s > 0:
        return work_s / span_s
    return np.inf if work_s > 0 else 0.0
