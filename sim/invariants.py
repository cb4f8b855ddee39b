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
11. Closed loop: a request arrives exactly its delay after the end that it waits for, and never more
    users than there are have something under way.
12. Front end: no request is passed on before it arrives, no token delivered before its step ends,
    and the tokens of an instance are delivered in order.

13. Hand-over: no request decodes before its KV is there, and its KV is moved after its first token.
14. Bytes: what instances send is what instances receive and what the requests' KV has; no store and
    no cache is left with KV of a request that has gone on.

Invariants 3, 6 and 10 are about engines: there an arrival is one at the engine. In 11 an end is
what the user sees.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sim.errors import InvariantError
from sim.followers import roots_of
from sim.front_end_records import engine_view, user_view
from sim.metrics import tokens_generated
from sim.recorder import REJECTED
from sim.records import FloatArray, FrontEndRecords, SimulationResult
from sim.workload import IntArray

BoolArray = npt.NDArray[np.bool_]


def check_result(
    result: SimulationResult,
    *,
    max_num_batched_tokens: int | Sequence[int],
    max_model_len: int | None,
    admits_in_arrival_order: bool,
    is_whole: bool = False,
) -> None:
    """Check invariants 1, 3, 4, 6, 7, 8, 9, 11 and 12 on the records of a run.

    Raises:
        InvariantError: names the rule and the first request or step that breaks it.
    """
    requests, workload = engine_view(result).requests, result.workload
    counted = result.num_finished + result.num_rejected + result.num_unfinished
    if counted != workload.num_requests:
        raise InvariantError(f"1: {counted} requests accounted for of {workload.num_requests}")
    if is_whole and result.num_unfinished:
        raise InvariantError(f"1: {result.num_unfinished} requests left at the end of a whole run")
    # "not at or after" also catches a time that is no number.
    was_admitted, has_token = requests.cached_tokens >= 0, requests.first_step > 0
    early = ~(requests.admitted_s >= requests.arrival_s) & was_admitted
    _refuse("3: admitted before arrival", early)
    early = ~(requests.first_token_s >= requests.admitted_s) & has_token
    _refuse("3: first token before admission", early)
    early = ~(requests.finish_s >= requests.first_token_s) & requests.is_completed
    _refuse("3: last token before the first", early)
    budgets = np.broadcast_to(max_num_batched_tokens, len(result.instances))
    for index, instance in enumerate(result.instances):
        _refuse(f"4: instance {index} goes back in time", ~(np.diff(instance.step_end_s) >= 0))
        tokens = instance.run_column("num_decodes") + instance.run_column("prefill_tokens")
        _refuse(f"8: instance {index} exceeds the budget", tokens > budgets[index])
        if admits_in_arrival_order:
            admitted_s = _first_admissions(engine_view(result), index)
            _refuse(f"6: instance {index} admits out of order", np.diff(admitted_s) < 0)
    _check_tokens(result, max_model_len)
    _refuse("9: hit covers the whole prompt", requests.cached_tokens >= workload.prompt_tokens)
    if workload.is_closed_loop:
        _check_follow_ups(result)
        _check_users(result)
    if result.front_end is not None:
        _check_front_end(result, result.front_end)


def _check_front_end(result: SimulationResult, records: FrontEndRecords) -> None:
    early = records.engine_arrival_s < result.requests.arrival_s
    _refuse("12: passed on before its arrival", early)
    for index, instance in enumerate(result.instances):
        delivered_s = records.step_delivered_s[index]
        early = ~(delivered_s >= instance.step_end_s)
        _refuse(f"12: instance {index} has tokens delivered before they are out", early)
        _refuse(f"12: instance {index} has tokens overtake", ~(np.diff(delivered_s) >= 0))


def _first_admissions(result: SimulationResult, index: int) -> FloatArray:
    """Times of first admissions on an instance, in order of arrival."""
    requests, admitted_on = result.requests, result.requests.instance
    if result.handover is not None:
        moved = result.handover.is_handed_over
        admitted_on = np.where(moved, result.handover.prefill_instance, admitted_on)
    rows = np.flatnonzero((admitted_on == index) & ~np.isnan(requests.admitted_s))
    if result.workload.is_closed_loop:
        # Of several that arrive in one instant a later row may come first.
        rows = rows[np.lexsort((requests.admitted_s[rows], requests.arrival_s[rows]))]
    return requests.admitted_s[rows]


def _ends_of(result: SimulationResult) -> FloatArray:
    """When each request finished for its user or was rejected, NaN where it did not."""
    is_rejected = result.requests.status == REJECTED
    rejected_s = engine_view(result).requests.arrival_s
    return np.where(is_rejected, rejected_s, user_view(result).requests.finish_s)


def _check_follow_ups(result: SimulationResult) -> None:
    """A follow-up arrives if and when its time has come, a root with a time of its own then."""
    workload, arrival_s = result.workload, result.requests.arrival_s
    expected_s = workload.arrival_s.copy()
    after = np.full(len(expected_s), -1) if workload.after is None else workload.after
    rows = np.flatnonzero(after >= 0)
    delay_s = 0.0 if workload.delay_s is None else workload.delay_s[rows]
    expected_s[rows] = _ends_of(result)[after[rows]] + delay_s
    is_fixed = np.ones(len(after), np.bool_)
    if workload.concurrency is not None:
        is_fixed[np.flatnonzero(after < 0)[workload.concurrency :]] = False
    is_due = (expected_s < result.end_s) if result.num_unfinished else ~np.isnan(expected_s)
    is_wrong = np.where(np.isnan(arrival_s), is_due, arrival_s != expected_s)
    _refuse("11: arrives at a wrong time", is_wrong & is_fixed)


def _check_users(result: SimulationResult) -> None:
    """Count users from the arrival of a root to the end of the last request that it led to."""
    workload, arrival_s = result.workload, result.requests.arrival_s
    if workload.concurrency is None:
        return
    n = workload.num_requests
    roots: IntArray = np.arange(n) if workload.after is None else roots_of(workload.after)
    end_s = np.full(n, -np.inf)
    np.maximum.at(end_s, roots, np.nan_to_num(_ends_of(result), nan=np.inf))
    is_start = (roots == np.arange(n)) & ~np.isnan(arrival_s)
    times = np.concatenate([end_s[is_start], arrival_s[is_start]])
    change = np.repeat([-1, 1], np.count_nonzero(is_start))
    num_busy = np.cumsum(change[np.lexsort((change, times))])
    if num_busy.max(initial=0) > workload.concurrency:
        raise InvariantError(
            f"11: {num_busy.max()} users have something under way, there are {workload.concurrency}"
        )


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
    requests = engine_view(result).requests
    sojourn_s = float((requests.finish_s - requests.arrival_s)[requests.is_completed].sum())
    if not abs(sojourn_s - request_seconds) <= 1e-6 * max(1.0, sojourn_s):
        raise InvariantError(
            f"10: sojourn times sum to {sojourn_s} s, number in system to {request_seconds} s"
        )


def _refuse(rule: str, is_broken: BoolArray) -> None:
    if is_broken.any():
        raise InvariantError(f"{rule} (row {int(np.argmax(is_broken))})")
