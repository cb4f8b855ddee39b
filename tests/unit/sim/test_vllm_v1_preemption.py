"""vLLM v1 through the engine: preemption by recompute."""

from tests.engine_runs import run_engine, token_steps
from tests.twin.stories import Ask, workload_of
from tests.unit.sim.probes import used_blocks, work


def test_the_last_running_request_is_preempted_and_comes_back_when_it_fits() -> None:
    result = run_engine(workload_of([Ask(0, 8, 3)] * 3), usable_blocks=6)
    # Step 2: the first two need a third block each, the third one loses its two.
    assert token_steps(result) == [[1, 2, 3], [1, 2, 3], [1, 4, 5]]
    assert result.requests.num_preemptions.tolist() == [0, 0, 1]
    assert work(result) == [(1, 0, 3, 24), (1, 2, 0, 0), (1, 2, 0, 0), (1, 0, 1, 9), (1, 1, 0, 0)]


def test_preemption_repeats_and_the_one_preempted_last_waits_first() -> None:
    asks = [Ask(0, 4, 2), Ask(0, 4, 3), Ask(0, 4, 2), Ask(0, 4, 2)]
    result = run_engine(workload_of(asks), usable_blocks=4)
    # Step 2: request 0 takes the block of request 3, request 1 that of request 2.
    assert token_steps(result) == [[1, 2], [1, 2, 3], [1, 3], [1, 4]]
    assert result.requests.num_preemptions.tolist() == [0, 0, 1, 1]


def test_a_request_may_preempt_itself() -> None:
    asks = [Ask(0, 9, 5), Ask(0, 4, 2)]
    result = run_engine(workload_of(asks), usable_blocks=4, macro_steps=False)
    # Step 2: request 1 finds no second block. Its own block lies free: it needs 2, 1 is free.
    assert token_steps(result) == [[1, 2, 3, 4, 5], [1, 6]]
    assert used_blocks(result) == [4, 3, 3, 3, 4, 2]
    assert result.requests.num_preemptions.tolist() == [0, 1]


def test_a_preempted_request_waits_before_one_that_never_ran() -> None:
    result = run_engine(workload_of([Ask(0, 8, 2), Ask(0, 8, 2), Ask(0, 8, 1)]), usable_blocks=4)
    assert token_steps(result) == [[1, 2], [1, 3], [4]]


def test_nobody_is_admitted_in_a_step_that_preempted() -> None:
    asks = [Ask(0, 4, 5), Ask(0, 16, 2)]
    result = run_engine(
        workload_of(asks), usable_blocks=6, budget=8, prefix_caching=False, macro_steps=False
    )
    assert work(result) == [
        (1, 0, 2, 8),
        (1, 1, 1, 7),
        (1, 1, 1, 5),
        (1, 1, 0, 0),  # request 1 preempts itself; a first chunk of 7 tokens would fit at once
        (1, 1, 1, 7),
        (1, 0, 1, 8),
        (1, 0, 1, 2),
    ]
    assert token_steps(result) == [[1, 2, 3, 4, 5], [3, 7]]


def test_a_resumed_request_finds_its_own_private_blocks() -> None:
    result = run_engine(workload_of([Ask(0, 8, 2), Ask(0, 16, 2)]), usable_blocks=6)
    # Step 2 takes the tail block of request 1; its other three are still there in step 3.
    assert work(result) == [(1, 0, 2, 24), (1, 1, 0, 0), (1, 0, 1, 5)]
    assert token_steps(result) == [[1, 2], [1, 3]]
    assert result.requests.cached_tokens.tolist() == [0, 0]  # those of the first admission


def test_a_resume_that_recomputes_one_token_is_prefill_work() -> None:
    result = run_engine(
        workload_of([Ask(0, 9, 3), Ask(0, 4, 3)]), usable_blocks=4, macro_steps=False
    )
    assert work(result)[3:] == [(1, 0, 1, 1), (1, 1, 0, 0)]
    assert token_steps(result) == [[1, 2, 3], [1, 4, 5]]


def test_the_intervals_of_a_preempted_request_are_kept_apart() -> None:
    result = run_engine(workload_of([Ask(0, 8, 3)] * 3), usable_blocks=6)
    assert result.requests.more_intervals == {2: (1, 1, 4, 5)}
    assert result.requests.first_step.tolist() == [1, 1, 1]
    assert result.requests.last_step.tolist() == [3, 3, 5]
    assert result.requests.admitted_s.tolist() == [0.0, 0.0, 0.0]
