"""What the front end did, beside the records of the engines, and who sees which times.

`SimulationResult.requests` holds arrivals at the front end and step ends of the engines. Users see
tokens when they are delivered; engines see requests when the front end has passed them on.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sim.front_end import FrontEnd
from sim.front_end_hashing import PromptHasher
from sim.front_end_output import delivery_times
from sim.recorder import UNFINISHED
from sim.records import FrontEndRecords, InstanceRecords, RequestRecords, SimulationResult
from sim.workload import FloatArray, IntArray


def front_end_records(
    front_end: FrontEnd,
    requests: RequestRecords,
    instances: Sequence[InstanceRecords],
    prompt_tokens: IntArray,
    entry_s: FloatArray,
    hashers: Sequence[PromptHasher],
) -> FrontEndRecords:
    """Records of a front end at the end of a run.

    Args:
        front_end: the constants.
        requests: those of the engines.
        instances: likewise.
        prompt_tokens: of the workload. Shape (n,).
        entry_s: when each request came or would have come to the router. Shape (n,).
        hashers: the hashers of the instances, none where nothing is hashed.
    """
    engine_arrival_s = entry_s.copy()
    for hasher in hashers:
        rows = np.frombuffer(hasher.rows, np.int64)
        engine_arrival_s[rows] = np.frombuffer(hasher.hashed_s, np.float64)
    engine_arrival_s[(requests.status == UNFINISHED) & (requests.instance < 0)] = np.nan
    has_entered = ~np.isnan(engine_arrival_s)
    num_tokens = int(prompt_tokens[has_entered].sum())
    num_entered = int(np.count_nonzero(has_entered))
    delivered = delivery_times(requests, instances, front_end.output_token_s)
    num_out = sum(
        int((last - first + 1).sum())
        for _, first, last in (requests.intervals(i) for i in range(len(instances)))
    )
    finish_s = _at_steps(requests, requests.last_step, delivered)
    finish_s[~requests.is_completed] = np.nan
    return FrontEndRecords(
        engine_arrival_s=engine_arrival_s,
        first_token_s=_at_steps(requests, requests.first_step, delivered),
        finish_s=finish_s,
        step_delivered_s=tuple(delivered),
        work_in_s=num_entered * front_end.request_s + num_tokens * front_end.token_s,
        work_out_s=num_out * front_end.output_token_s,
    )


def _at_steps(
    requests: RequestRecords, steps: IntArray, delivered: Sequence[FloatArray]
) -> FloatArray:
    """Delivery times of steps (from 1) of the instances of requests, NaN for step 0."""
    times = np.full(len(steps), np.nan)
    for index, of_instance in enumerate(delivered):
        rows = np.flatnonzero((requests.instance == index) & (steps > 0))
        times[rows] = of_instance[steps[rows] - 1]
    return times


def user_view(result: SimulationResult) -> SimulationResult:
    """The records with times as users see them: tokens and step ends when they are delivered."""
    records = result.front_end
    if records is None:
        return result
    requests = replace(
        result.requests, first_token_s=records.first_token_s, finish_s=records.finish_s
    )
    instances = tuple(
        replace(one, step_end_s=delivered_s)
        for one, delivered_s in zip(result.instances, records.step_delivered_s, strict=True)
    )
    return replace(result, requests=requests, instances=instances)


def engine_view(result: SimulationResult) -> SimulationResult:
    """The records with times as engines see them: requests arrive when they are passed on."""
    records = result.front_end
    if records is None:
        return result
    requests = replace(result.requests, arrival_s=records.engine_arrival_s)
    return replace(result, requests=requests)
