"""vLLM v1 through the engine: token budget, seats, order of the queue."""

import pytest

from sim.errors import ConfigError
from sim.recorder import COMPLETED, OVER_CAPACITY, OVER_MODEL_LEN, REJECTED
from sim.vllm_v1 import VllmV1
from tests.engine_runs import run_engine, token_steps
from tests.twin.stories import Ask, workload_of
from tests.unit.sim.probes import used_blocks, work


def test_decodes_take_the_budget_first_and_a_chunked_prefill_gets_the_rest() -> None:
    result = run_engine(workload_of([Ask(0, 4, 5), Ask(0, 20, 1)]), budget=10)
    assert work(result) == [(1, 0, 2, 10), (1, 1, 1, 9), (1, 1, 1, 5), (2, 1, 0, 0)]
    assert token_steps(result) == [[1, 2, 3, 4, 5], [3]]
    assert result.requests.finish_s.tolist() == [5.0, 3.0]


def test_a_prefill_under_way_goes_before_a_waiting_request() -> None:
    result = run_engine(workload_of([Ask(0, 6, 1), Ask(0, 5, 1)]), budget=4, seats=4)
    assert work(result) == [(1, 0, 1, 4), (1, 0, 2, 4), (1, 0, 1, 3)]
    assert token_steps(result) == [[2], [3]]


def test_nobody_is_admitted_without_budget() -> None:
    result = run_engine(workload_of([Ask(0, 9, 1), Ask(0, 1, 1)]), budget=4, seats=4)
    assert work(result) == [(1, 0, 1, 4), (1, 0, 1, 4), (1, 0, 2, 2)]
    assert result.requests.admitted_s.tolist() == [0.0, 2.0]


def test_admission_stops_at_max_num_seqs() -> None:
    result = run_engine(workload_of([Ask(0, 4, 2), Ask(0, 4, 3), Ask(0, 4, 1)]), seats=2)
    assert token_steps(result) == [[1, 2], [1, 2, 3], [3]]


def test_a_head_that_does_not_fit_blocks_a_smaller_request_behind_it() -> None:
    asks = [Ask(0, 8, 2), Ask(0, 12, 1), Ask(0, 4, 1)]
    result = run_engine(workload_of(asks), usable_blocks=4)
    assert token_steps(result) == [[1, 2], [3], [3]]
    assert used_blocks(result) == [2, 3, 4]


def test_a_request_fits_exactly_when_its_blocks_less_the_last_token_are_usable() -> None:
    asks = [Ask(0, 4, 5), Ask(0, 4, 6), Ask(0, 9, 1), Ask(0, 8, 1)]
    result = run_engine(workload_of(asks), usable_blocks=2)
    assert result.requests.status.tolist() == [COMPLETED, REJECTED, REJECTED, COMPLETED]
    assert result.requests.reject_reason.tolist() == [0, OVER_CAPACITY, OVER_CAPACITY, 0]
    assert token_steps(result) == [[1, 2, 3, 4, 5], [], [], [6]]
    assert result.requests.instance.tolist() == [0, -1, -1, 0]


def test_a_prompt_of_max_model_len_is_rejected_and_outputs_are_cut() -> None:
    asks = [Ask(0, 10, 1), Ask(0, 9, 7), Ask(0, 4, 99), Ask(0, 4, 2)]
    result = run_engine(workload_of(asks), max_model_len=10)
    assert result.requests.status.tolist() == [REJECTED, COMPLETED, COMPLETED, COMPLETED]
    assert result.requests.reject_reason.tolist() == [OVER_MODEL_LEN, 0, 0, 0]
    assert [len(steps) for steps in token_steps(result)] == [0, 1, 6, 2]


def test_max_model_len_saves_a_request_from_being_over_capacity() -> None:
    workload = workload_of([Ask(0, 4, 99)])
    assert run_engine(workload, usable_blocks=3).num_rejected == 1
    assert run_engine(workload, usable_blocks=3, max_model_len=13).num_finished == 1


@pytest.mark.parametrize(
    ("seats", "budget", "message"),
    [
        (9, 8, "engine.max_num_seqs=9 exceeds engine.max_num_batched_tokens=8"),
        (0, 8, "engine.max_num_seqs=0: must be at least 1"),
        (-1, -1, "engine.max_num_seqs=-1: must be at least 1"),
    ],
)
def test_seats_must_be_positive_and_within_the_budget(
    seats: int, budget: int, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        VllmV1(seats, budget)
    assert VllmV1(8, 8).max_num_batched_tokens == 8
