"""What a router reads in the middle of a run, by formula, equals what step by step gives."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine_runs import run_engine
from tests.twin.stories import Ask, workload_of
from tests.twin.workloads import random_workload
from tests.unit.sim.probes import Probe


@pytest.mark.parametrize(
    ("is_async", "at_s", "kv_tokens"),
    [
        (False, 0.5, 4),
        (False, 1.0, 4),  # arrivals come first: step 2 is not planned yet
        (False, 1.5, 5),
        (False, 10.5, 14),
        (False, 29.5, 33),
        (False, 30.5, 0),
        (True, 0.5, 5),
        (True, 1.0, 5),
        (True, 10.5, 15),
        (True, 28.5, 33),
        (True, 29.5, 33),  # nothing is left to plan
        (True, 30.5, 0),
    ],
)
def test_kv_tokens_are_those_of_the_steps_planned_so_far(
    is_async: bool, at_s: float, kv_tokens: int
) -> None:
    for macro_steps in (True, False):
        probe = Probe()
        workload = workload_of([Ask(0, 4, 30), Ask(at_s, 4, 1)])
        run_engine(workload, router=probe, is_async=is_async, macro_steps=macro_steps)
        assert probe.kv_tokens == [(0,), (kv_tokens,)]


def test_kv_tokens_of_a_part_done_prefill_are_the_scheduled_ones() -> None:
    probe = Probe()
    run_engine(workload_of([Ask(0, 30, 4), Ask(1.5, 4, 1)]), budget=8, router=probe)
    assert probe.kv_tokens[1] == (16,)


def test_shared_kv_tokens_count_once_per_request() -> None:
    probe = Probe()
    asks = [Ask(0, 9, 5, (0,)), Ask(0, 9, 5, (0,)), Ask(0.5, 4, 1)]
    run_engine(workload_of(asks, [(-1, 8)]), router=probe)
    assert probe.kv_tokens[2] == (18,)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    structured=st.booleans(),
    is_async=st.booleans(),
    num_instances=st.sampled_from([1, 1, 2]),
    view=st.sampled_from([{}, {}, {"publish_period_s": 2.5}]),
)
def test_a_router_sees_the_same_with_and_without_macro_steps(
    seed: int, structured: bool, is_async: bool, num_instances: int, view: dict[str, float]
) -> None:
    workload, limits = random_workload(seed, structured=structured, max_requests=30)
    options: dict[str, Any] = {
        "usable_blocks": limits["num_gpu_blocks"] - 1,
        "seats": limits["max_num_seqs"],
        "budget": limits["max_num_batched_tokens"],
        "block_tokens": 16,
        "num_instances": num_instances,
        "is_async": is_async,
        **view,
    }
    probes = [Probe(), Probe()]
    for probe, macro_steps in zip(probes, (True, False), strict=True):
        run_engine(workload, router=probe, macro_steps=macro_steps, **options)
    macro, plain = probes
    assert macro.kv_tokens == plain.kv_tokens
    assert macro.num_running == plain.num_running
    assert macro.num_waiting == plain.num_waiting
    assert macro.queued_prefill_tokens == plain.queued_prefill_tokens
