"""A horizon stops a run: what was finished and produced before it is kept."""

import numpy as np
import pytest

from sim.records import SimulationResult
from tests.engine_runs import run_engine, token_steps
from tests.twin.stories import Ask, workload_of

STORY = [Ask(0, 4, 3), Ask(0, 4, 50), Ask(2.5, 4, 9), Ask(80, 4, 1)]


def counts(result: SimulationResult) -> tuple[int, int, int]:
    return (result.num_finished, result.num_rejected, result.num_unfinished)


@pytest.mark.parametrize("macro_steps", [True, False])
def test_a_horizon_keeps_what_finished_and_what_was_produced_before_it(macro_steps: bool) -> None:
    result = run_engine(workload_of(STORY), horizon_s=7.5, macro_steps=macro_steps)
    assert counts(result) == (1, 0, 3)
    assert result.end_s == 7.5
    requests = result.requests
    assert requests.finish_s[0] == 3.0
    assert np.isnan(requests.finish_s[1:]).all()
    assert requests.first_token_s[:3].tolist() == [1.0, 1.0, 4.0]
    assert np.isnan(requests.first_token_s[3])
    assert requests.instance.tolist() == [0, 0, 0, -1]
    assert token_steps(result) == [[1, 2, 3], list(range(1, 8)), [4, 5, 6, 7], []]
    assert not result.is_interrupted


def test_a_horizon_after_the_last_finish_changes_nothing() -> None:
    whole = run_engine(workload_of(STORY))
    result = run_engine(workload_of(STORY), horizon_s=500.0)
    assert counts(result) == counts(whole) == (4, 0, 0)
    assert result.requests.finish_s.tolist() == whole.requests.finish_s.tolist()
    assert whole.end_s == 81.0 <= result.end_s <= 500.0


def test_a_waiting_request_at_the_horizon_was_never_admitted() -> None:
    result = run_engine(workload_of([Ask(0, 4, 9), Ask(1, 4, 1)]), seats=1, horizon_s=5.5)
    assert counts(result) == (0, 0, 2)
    assert result.requests.instance.tolist() == [0, 0]
    assert np.isnan(result.requests.admitted_s[1])
    assert result.requests.first_step.tolist() == [1, 0]


def test_a_request_preempted_before_the_horizon_keeps_its_tokens() -> None:
    result = run_engine(workload_of([Ask(0, 8, 3)] * 3), usable_blocks=6, horizon_s=2.5)
    assert token_steps(result) == [[1, 2], [1, 2], [1]]
    assert result.requests.num_preemptions.tolist() == [0, 0, 1]


def test_tokens_planned_ahead_but_not_out_at_the_horizon_do_not_count() -> None:
    result = run_engine(workload_of([Ask(0, 4, 3)]), is_async=True, horizon_s=0.5)
    assert token_steps(result) == [[]]
    assert np.isnan(result.requests.first_token_s[0])
    assert result.requests.admitted_s[0] == 0.0


def test_a_request_preempted_with_its_last_token_in_flight_is_in_the_records() -> None:
    asks = [Ask(0, 8, 2), Ask(0, 8, 1)]
    result = run_engine(workload_of(asks), usable_blocks=4, is_async=True, horizon_s=0.5)
    assert result.requests.instance.tolist() == [0, 0]
    assert result.requests.num_preemptions.tolist() == [0, 1]
    assert token_steps(result) == [[], []]
