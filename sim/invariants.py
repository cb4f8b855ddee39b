"""The simulator's own invariants, numbered; `check=true` verifies them in every run.

1. Conservation of requests: finished + rejected + unfinished = offered.
2. Conservation of KV blocks: free + held = usable, after every plan.
3. Causality: arrival <= admitted <= first token <= last token.
4. Step ends never decrease.
5. Work conservation: an instance never goes idle while a request waits on it.
6. First admissions on an instance follow the order of arrival, where the policy promises it.
7. Token exactness: a finished request has produced exactly its output tokens.
8. Budget: no step exceeds the token budget, no instant the seats.
9. A prefix hit is at most the prompt less one token.
10. Little's law as an identity: the integral over time of the number in the system, counted by the
    instances, equals the sum of the sojourn times in the records, for runs that end empty.
"""

import numpy as np
import numpy.typing as npt

from sim.errors import InvariantError
from sim.metrics import tokens_generated
from sim.records import SimulationResult

BoolArray = npt.NDArray[np.bool_]


def check_result(
    result: SimulationResult,
    *,
    max_num_batched_tokens: int,
    max_model_len: int | None,
    admits_in_arrival_order: bool,
) -> None:
    """Check invariants 1, 3, 4, 6, 7, 8 and 9 on the records of a run.

    Raises:
        InvariantError: names the rule and the first request or step that breaks it.
    """
    requests, workload = result.requests, result.workload
    counted = result.num_finished + result.num_rejected + result.num_unfinished
    if counted != workload.num_requests:
        raise InvariantError(f"1: {counted} requests accounted for of {workload.num_requests}")
    # "not at or after" also catches a time that is no number.
    was_admitted, has_token = requests.cached_tokens >= 0, requests.first_step > 0
    early = ~(requests.admitted_s >= workload.arrival_s) & was_admitted
    _refuse("3: admitted before arrival", early)
    early = ~(requests.first_token_s >= requests.admitted_s) & has_token
    _refuse("3: first token before admission", early)
    early = ~(requests.finish_s >= requests.first_token_s) & requests.is_completed
    _refuse("3: last token before the first", early)
    for index, instance in enumerate(result.instances):
        _refuse(f"4: instance {index} goes back in time", ~(np.diff(instance.step_end_s) >= 0))
        tokens = instance.run_column("num_decodes") + instance.run_column("prefill_tokens")
        _refuse(f"8: instance {index} exceeds the budget", tokens > max_num_batched_tokens)
        if admits_in_arrival_order:
            rows = (requests.instance == index) & ~np.isnan(requests.admitted_s)
            admitted_s = requests.admitted_s[rows]
            _refuse(f"6: instance {index} admits out of order", np.diff(admitted_s) < 0)
    _check_tokens(result, max_model_len)
    _refuse("9: hit covers the whole prompt", requests.cached_tokens >= workload.prompt_tokens)


def _check_tokens(result: SimulationResult, max_model_len: int | None) -> None:
    expected = result.workload.output_tokens
    if max_model_len is not None:
        expected = np.minimum(expected, max_model_len - result.workload.prompt_tokens)
    is_wrong = tokens_generated(result) != expected
    _refuse("7: wrong number of tokens", is_wrong & result.requests.is_completed)


def check_littles_law(result: SimulationResult, request_seconds: float) -> None:
    """Check invariant 10 where it applies: nothing unfinished.

    Args:
        result: the records.
        request_seconds: integral of the number in the system, as the instances counted it.

    Raises:
        InvariantError: the two sides differ by more than rounding.
    """
    if result.num_unfinished:
        return
    is_done = result.requests.is_completed
    sojourn_s = float((result.requests.finish_s - result.workload.arrival_s)[is_done].sum())
    if not abs(sojourn_s - request_seconds) <= 1e-6 * max(1.0, sojourn_s):
        raise InvariantError(
            f"10: sojourn times sum to {sojourn_s} s, number in system to {request_seconds} s"
        )


def _refuse(rule: str, is_broken: BoolArray) -> None:
    if is_broken.any():
        raise InvariantError(f"{rule} (row {int(np.argmax(is_broken))})")
