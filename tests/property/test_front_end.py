"""The front end: order, causality, exactness of macro-stepping, and nothing where nothing costs."""

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.front_end import FrontEnd
from sim.metrics import summarize
from sim.records import SimulationResult
from sim.simulation import simulate
from sim.workload import Workload
from tests.engine_runs import ConstantCost, LinearCost, cluster_of, run_engine, token_steps
from tests.property.test_closed_loop import Case, cases, columns
from tests.twin.workloads import random_workload

NOTHING = FrontEnd()

amounts_s = st.sampled_from([0.0, 0.0, 0.25, 0.01, 0.0037])
small_s = st.sampled_from([0.0, 0.0, 2.0**-8, 0.001])

front_ends = st.builds(
    FrontEnd,
    delay_s=amounts_s,
    request_s=amounts_s,
    token_s=small_s,
    hash_block_s=small_s,
    output_token_s=small_s,
)


def front_end_columns(result: SimulationResult) -> list[Any]:
    records = result.front_end
    assert records is not None
    return [
        records.engine_arrival_s.tobytes(),
        records.first_token_s.tobytes(),
        records.finish_s.tobytes(),
        *(one.tobytes() for one in records.step_delivered_s),
        records.work_in_s,
        records.work_out_s,
    ]


def with_front_end(case: Case, front_end: FrontEnd) -> Case:
    return replace(case, options={**case.options, "front_end": front_end})


@settings(max_examples=250, deadline=None)
@given(case=cases(), front_end=front_ends)
def test_closed_loops_give_bitwise_the_same_with_macro_steps_and_without(
    case: Case, front_end: FrontEnd
) -> None:
    macro, seen_macro = with_front_end(case, front_end).run(True)
    plain, seen_plain = with_front_end(case, front_end).run(False)
    assert columns(macro) == columns(plain)
    assert front_end_columns(macro) == front_end_columns(plain)
    assert seen_macro == seen_plain


@settings(max_examples=60, deadline=None)
@given(case=cases())
def test_a_front_end_that_costs_nothing_changes_no_closed_loop(case: Case) -> None:
    without, seen_without = case.run(True)
    free, seen_free = with_front_end(case, NOTHING).run(True)
    assert columns(without) == columns(free)
    assert seen_without == seen_free
    assert summarize(without, slo_ttft_s=1, slo_tpot_s=0.02).items() <= (
        summarize(free, slo_ttft_s=1, slo_tpot_s=0.02).items()
    )


def open_run(
    workload: Workload, limits: Any, front_end: FrontEnd | None, **options: Any
) -> SimulationResult:
    return run_engine(
        workload,
        usable_blocks=limits["num_gpu_blocks"] - 1,
        seats=limits["max_num_seqs"],
        budget=limits["max_num_batched_tokens"],
        block_tokens=16,
        front_end=front_end,
        **options,
    )


open_cases = given(
    seed=st.integers(0, 2**32),
    structured=st.booleans(),
    cost=st.sampled_from([ConstantCost(0.01), LinearCost()]),
    is_async=st.booleans(),
    num_instances=st.sampled_from([1, 3]),
    front_end=front_ends,
)


@settings(max_examples=100, deadline=None)
@open_cases
def test_open_loops_keep_order_and_causality(
    seed: int,
    structured: bool,
    cost: ConstantCost,
    is_async: bool,
    num_instances: int,
    front_end: FrontEnd,
) -> None:
    workload, limits = random_workload(seed, structured=structured, step_s=0.01)
    options: dict[str, Any] = {
        "cost": cost,
        "is_async": is_async,
        "num_instances": num_instances,
    }
    macro = open_run(workload, limits, front_end, **options)
    plain = open_run(workload, limits, front_end, macro_steps=False, **options)
    assert columns(macro) == columns(plain)
    assert front_end_columns(macro) == front_end_columns(plain)
    requests, records = macro.requests, macro.front_end
    assert records is not None
    entered_s = records.engine_arrival_s
    assert (entered_s >= requests.arrival_s).all()
    for index in range(num_instances):
        assert (np.diff(entered_s[requests.instance == index]) >= 0).all()
    done = requests.is_completed
    assert (records.first_token_s[done] >= requests.first_token_s[done]).all()
    assert (records.finish_s[done] >= requests.finish_s[done]).all()
    assert_one_server_hands_out_the_tokens(macro, front_end.output_token_s)


def assert_one_server_hands_out_the_tokens(result: SimulationResult, token_s: float) -> None:
    """Replay the way out step by step, from the tokens of each request."""
    instances = result.instances
    tokens = [np.zeros(len(one.step_end_s) + 1, np.int64) for one in instances]
    for row, steps in enumerate(token_steps(result)):
        for step in steps:
            tokens[result.requests.instance[row]][step] += 1
    ended = sorted(
        (end_s, index, step)
        for index, one in enumerate(instances)
        for step, end_s in enumerate(one.step_end_s.tolist(), start=1)
    )
    assert result.front_end is not None
    free_s = 0.0
    for end_s, index, step in ended:
        free_s = max(free_s, end_s) + int(tokens[index][step]) * token_s
        found_s = result.front_end.step_delivered_s[index][step - 1]
        assert np.isclose(found_s, free_s, rtol=1e-12, atol=1e-9)


@settings(max_examples=60, deadline=None)
@open_cases
def test_a_front_end_that_costs_nothing_changes_no_open_loop(
    seed: int,
    structured: bool,
    cost: ConstantCost,
    is_async: bool,
    num_instances: int,
    front_end: FrontEnd,
) -> None:
    workload, limits = random_workload(seed, structured=structured, step_s=0.01)
    options: dict[str, Any] = {"cost": cost, "is_async": is_async, "num_instances": num_instances}
    without = open_run(workload, limits, None, **options)
    free = open_run(workload, limits, NOTHING, **options)
    assert columns(without) == columns(free)
    figures = [summarize(one, slo_ttft_s=1, slo_tpot_s=0.02) for one in (without, free)]
    assert figures[0].items() <= figures[1].items()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), front_end=front_ends, share=st.floats(0.0, 1.2))
def test_a_run_that_is_cut_keeps_what_was_delivered_before(
    seed: int, front_end: FrontEnd, share: float
) -> None:
    workload, limits = random_workload(seed, structured=False, step_s=0.01)
    spec = cluster_of(
        usable_blocks=limits["num_gpu_blocks"] - 1,
        seats=limits["max_num_seqs"],
        budget=limits["max_num_batched_tokens"],
        block_tokens=16,
        cost=LinearCost(),
        front_end=front_end,
    )
    whole = simulate(workload, spec)
    cut = simulate(workload, spec, horizon_s=share * whole.end_s)
    assert whole.front_end is not None
    assert cut.front_end is not None
    done = cut.requests.is_completed
    assert cut.front_end.finish_s[done].tolist() == whole.front_end.finish_s[done].tolist()
    assert (
        cut.requests.arrival_s[~np.isnan(cut.requests.arrival_s)] < cut.end_s
    ).all() or share > 1
