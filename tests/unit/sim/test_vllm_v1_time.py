"""When an instance plans: arrivals at equal times, on step boundaries, at idle instances."""

import numpy as np
import pytest

from tests.engine_runs import ConstantCost, LinearCost, run_engine, token_steps
from tests.twin.stories import Ask, workload_of
from tests.unit.sim.probes import Probe, work


def test_an_arrival_on_a_step_boundary_is_seen_by_the_plan_made_there() -> None:
    asks = [Ask(0, 4, 5), Ask(1.0, 4, 1), Ask(1.0 + 1e-9, 4, 1)]
    for macro_steps in (True, False):
        result = run_engine(workload_of(asks), macro_steps=macro_steps)
        assert result.requests.admitted_s.tolist() == [0.0, 1.0, 2.0]
        assert token_steps(result) == [[1, 2, 3, 4, 5], [2], [3]]


def test_an_arrival_on_an_inexact_boundary_inside_a_run_is_seen_there_too() -> None:
    ends = np.add.accumulate([0.0, *[0.1] * 9])
    assert ends[6] != 0.1 * 6
    asks = [Ask(0, 4, 9), Ask(float(ends[6]), 4, 1), Ask(float(np.nextafter(ends[7], 1)), 4, 1)]
    result = run_engine(workload_of(asks), cost=ConstantCost(0.1))
    assert result.requests.admitted_s.tolist() == [0.0, ends[6], ends[8]]


def test_simultaneous_arrivals_at_an_idle_instance_are_planned_together() -> None:
    asks = [Ask(0.25, 4, 1), Ask(5.5, 4, 1), Ask(5.5, 8, 1)]
    result = run_engine(workload_of(asks))
    assert work(result) == [(1, 0, 1, 4), (1, 0, 2, 12)]
    assert result.requests.finish_s.tolist() == [1.25, 6.5, 6.5]


def test_at_equal_time_an_arrival_comes_before_the_end_of_a_step() -> None:
    probe = Probe()
    result = run_engine(workload_of([Ask(0, 4, 1), Ask(1.0, 4, 1)]), router=probe)
    assert probe.num_running == [(0,), (1,)]
    assert result.instances[0].busy_from_s.tolist() == [0.0]  # it never idled


def test_at_equal_time_an_arrival_comes_before_a_plan_on_another_instance() -> None:
    probe = Probe()
    asks = [Ask(0, 4, 1), Ask(0, 4, 1), Ask(0, 4, 1)]
    run_engine(workload_of(asks), router=probe, num_instances=2)
    assert probe.num_waiting == [(0, 0), (1, 0), (1, 1)]
    assert probe.num_running == [(0, 0)] * 3


def test_the_router_sees_counters_change_at_admission_and_at_the_last_token() -> None:
    probe = Probe()
    asks = [Ask(0, 6, 3), Ask(0.5, 5, 1), Ask(1.5, 4, 1), Ask(9, 4, 1)]
    run_engine(workload_of(asks), router=probe, seats=2, budget=4)
    assert probe.num_running == [(0,), (1,), (2,), (0,)]
    assert probe.num_waiting == [(0,), (0,), (0,), (0,)]
    # Step 1 leaves 2 tokens of request 0; step 2 computes them and 2 of the 5 of request 1.
    assert probe.queued_prefill_tokens == [(0,), (2,), (3,), (0,)]


def test_the_router_sees_who_waits_for_a_seat() -> None:
    probe = Probe()
    asks = [Ask(0, 4, 3), Ask(0.5, 5, 1), Ask(1.5, 4, 1), Ask(9, 4, 1)]
    run_engine(workload_of(asks), router=probe, seats=1)
    assert probe.num_running == [(0,), (1,), (1,), (0,)]
    assert probe.num_waiting == [(0,), (0,), (1,), (0,)]
    assert probe.queued_prefill_tokens == [(0,), (0,), (5,), (0,)]


def test_a_step_costs_what_its_batch_costs() -> None:
    result = run_engine(workload_of([Ask(0, 10, 3)]), cost=LinearCost(), macro_steps=True)
    prefill = 0.004 + 10 * 1e-4
    decodes = [0.004 + 3e-4 + 11e-5, 0.004 + 3e-4 + 12e-5]
    assert np.diff(result.instances[0].step_end_s, prepend=0.0) == pytest.approx(
        [prefill, *decodes], rel=1e-12
    )


def test_an_idle_period_is_in_no_step() -> None:
    result = run_engine(workload_of([Ask(1, 4, 1), Ask(7, 4, 2)]))
    assert result.instances[0].step_start_s.tolist() == [1.0, 7.0, 8.0]
    assert result.instances[0].step_end_s.tolist() == [2.0, 8.0, 9.0]
    assert result.instances[0].busy_from_step.tolist() == [0, 1]


def test_queued_prefill_tokens_leave_out_what_the_cache_holds() -> None:
    probe = Probe()
    asks = [Ask(0, 8, 1, (0,)), Ask(2, 9, 3, (0,)), Ask(2.5, 4, 1)]
    run_engine(workload_of(asks, [(-1, 8)]), router=probe)
    assert probe.queued_prefill_tokens == [(0,), (0,), (0,)]


def test_a_preempted_request_queues_its_prompt_and_what_it_generated() -> None:
    probe = Probe()
    asks = [Ask(0, 8, 2), Ask(0, 16, 2), Ask(1.5, 4, 1), Ask(9, 4, 1)]
    run_engine(workload_of(asks), router=probe, usable_blocks=6)
    assert probe.queued_prefill_tokens == [(0,), (8,), (17,), (0,)]
    assert probe.num_waiting[2:] == [(1,), (0,)]
