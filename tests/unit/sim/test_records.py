"""Columns of a result."""

import numpy as np

from sim.cost_totals import CostTotals
from tests.engine_runs import run_engine
from tests.twin.stories import Ask, workload_of


def test_intervals_list_preempted_requests_after_the_others() -> None:
    result = run_engine(workload_of([Ask(0, 8, 3)] * 3), usable_blocks=6)
    rows, first, last = result.requests.intervals(0)
    assert list(zip(rows.tolist(), first.tolist(), last.tolist(), strict=True)) == [
        (0, 1, 3),
        (1, 1, 3),
        (2, 1, 1),
        (2, 4, 5),
    ]


def test_intervals_of_completed_requests_leave_the_others_out() -> None:
    result = run_engine(workload_of([Ask(0, 4, 2), Ask(0, 4, 99)]), horizon_s=5.5)
    assert result.requests.intervals(0)[0].tolist() == [0, 1]
    assert result.requests.intervals(0, completed_only=True)[0].tolist() == [0]


def test_intervals_are_those_of_one_instance() -> None:
    result = run_engine(workload_of([Ask(0, 4, 2)] * 5), num_instances=2)
    rows = [result.requests.intervals(index)[0].tolist() for index in range(2)]
    assert rows == [[0, 2, 4], [1, 3]]


def test_a_column_is_found_by_its_name() -> None:
    result = run_engine(workload_of([Ask(0, 4, 3), Ask(0, 4, 5)]), seats=1)
    instance = result.instances[0]
    assert instance.run_column("first_step").tolist() == [0, 1, 3, 4]
    assert instance.run_column("num_steps").tolist() == [1, 2, 1, 4]
    assert instance.run_column("num_waiting").tolist() == [1, 1, 0, 0]
    assert instance.run_column("context_tokens").tolist() == [0, 5, 0, 5]


def test_what_did_not_happen_is_nan() -> None:
    result = run_engine(workload_of([Ask(0, 999, 1), Ask(0, 4, 9)]), horizon_s=3.5)
    requests = result.requests
    assert np.isnan([requests.admitted_s[0], requests.first_token_s[0], requests.finish_s[0]]).all()
    assert (requests.admitted_s[1], requests.first_token_s[1]) == (0.0, 1.0)
    assert np.isnan(requests.finish_s[1])
    assert requests.cached_tokens.tolist() == [-1, 0]


def test_costs_are_added_over_instances() -> None:
    result = run_engine(workload_of([Ask(0, 4, 3)] * 3), num_instances=2)
    assert [i.costs.launch_s for i in result.instances] == [3, 3]
    assert result.costs.launch_s == 6
    assert result.costs.hbm_bytes == 6


def test_totals_add_term_by_term() -> None:
    total = CostTotals(gemm_s=1.0, hbm_bytes=3)
    total.add(CostTotals(gemm_s=0.5, launch_s=2.0, hbm_bytes=4, l2_hit_bytes=1))
    assert total == CostTotals(gemm_s=1.5, launch_s=2.0, hbm_bytes=7, l2_hit_bytes=1)
