"""How many runs macro-stepping makes: a run is cut only where something could change."""

import pytest

from policies.batching.fcfs import FCFS
from tests.engine_runs import run_engine, token_steps
from tests.twin.stories import Ask, workload_of
from tests.unit.sim.probes import EveryStep, LastComeFirstServed, run_lengths


def test_a_lone_long_decode_is_one_run() -> None:
    result = run_engine(workload_of([Ask(0, 4, 1000)]), usable_blocks=400)
    assert run_lengths(result) == [1, 999]
    assert result.requests.finish_s[0] == 1000.0


def test_a_run_is_cut_at_the_first_finish() -> None:
    assert run_lengths(run_engine(workload_of([Ask(0, 4, 3), Ask(0, 4, 6)]))) == [1, 2, 3]


@pytest.mark.parametrize(("arrival_s", "cut"), [(4.5, 4), (5.0, 4), (4.0, 3)])
def test_a_run_is_cut_at_the_first_step_end_at_or_after_an_arrival(
    arrival_s: float, cut: int
) -> None:
    result = run_engine(workload_of([Ask(0, 4, 10), Ask(arrival_s, 4, 1)]))
    assert run_lengths(result) == [1, cut, 1, 8 - cut]


def test_with_asynchronous_scheduling_the_cut_comes_one_step_later() -> None:
    result = run_engine(workload_of([Ask(0, 4, 10), Ask(4.5, 4, 1)]), is_async=True)
    assert token_steps(result)[1] == [7]
    assert sum(run_lengths(result)) == 10
    assert run_lengths(result)[:3] == [1, 5, 1]


def test_an_arrival_without_a_seat_cuts_nothing() -> None:
    result = run_engine(workload_of([Ask(0, 4, 10), Ask(4.5, 4, 1)]), seats=1)
    assert run_lengths(result) == [1, 9, 1]


ONE_BLOCKED = [Ask(0, 4, 10), Ask(1.5, 16, 1), Ask(4.5, 4, 1)]
"""With 5 blocks request 1 needs 4 of them while request 0 holds 2 or more."""


def test_an_arrival_behind_a_blocked_head_cuts_nothing() -> None:
    result = run_engine(workload_of(ONE_BLOCKED), usable_blocks=5)
    assert run_lengths(result) == [1, 1, 8, 1]
    assert token_steps(result)[1:] == [[11], [11]]


def test_an_arrival_that_may_overtake_a_blocked_head_cuts() -> None:
    result = run_engine(
        workload_of(ONE_BLOCKED), usable_blocks=5, batching=lambda _index: LastComeFirstServed()
    )
    assert run_lengths(result)[:4] == [1, 1, 3, 1]
    assert token_steps(result)[2] == [6]


def test_a_run_ends_with_the_last_step_for_which_there_are_blocks() -> None:
    result = run_engine(workload_of([Ask(0, 4, 20)] * 2), usable_blocks=6)
    # Steps 2-9 fill 3 blocks each. Step 10 preempts request 1 and stands alone. Its 13 tokens
    # fit again when request 0 is done.
    assert run_lengths(result) == [1, 8, 1, 10, 1, 10]
    assert result.requests.more_intervals == {1: (1, 9, 21, 31)}


def test_a_run_has_at_most_4096_steps() -> None:
    result = run_engine(workload_of([Ask(0, 4, 10_000)]), usable_blocks=3000)
    assert run_lengths(result) == [1, 4096, 4096, 1807]


def test_a_run_of_exactly_4096_steps_is_whole() -> None:
    result = run_engine(workload_of([Ask(0, 4, 4097)]), usable_blocks=3000)
    assert run_lengths(result) == [1, 4096]


def test_without_macro_steps_every_step_is_a_run() -> None:
    asks = [Ask(0, 4, 10), Ask(4.5, 4, 1)]
    result = run_engine(workload_of(asks), macro_steps=False)
    assert run_lengths(result) == [1] * 10


def test_a_policy_that_decides_every_step_stops_macro_steps_while_anybody_waits() -> None:
    asks = [Ask(0, 4, 10), Ask(4.5, 4, 1)]
    eager = run_engine(workload_of(asks), seats=1, batching=lambda _index: EveryStep())
    # From the arrival on every step is planned on its own, although there is no seat for it.
    assert run_lengths(eager) == [1, 4] + [1] * 6
    early = [Ask(0, 4, 10), Ask(0, 4, 3)]
    eager = run_engine(workload_of(early), seats=1, batching=lambda _index: EveryStep())
    assert run_lengths(eager) == [1] * 10 + [1, 2]
    relaxed = run_engine(workload_of(early), seats=1, batching=lambda _index: FCFS())
    assert run_lengths(relaxed) == [1, 9, 1, 2]


def test_a_prefill_under_way_is_planned_step_by_step() -> None:
    result = run_engine(workload_of([Ask(0, 30, 4)]), budget=8)
    assert run_lengths(result) == [1, 1, 1, 1, 3]


def test_the_costs_of_a_cut_run_are_those_of_the_steps_that_ran() -> None:
    asks = [Ask(0, 4, 10), Ask(4.5, 4, 3)]
    macro, plain = (run_engine(workload_of(asks), macro_steps=on) for on in (True, False))
    assert macro.costs == plain.costs
    assert macro.costs.launch_s == len(macro.instances[0].step_end_s) == 10
