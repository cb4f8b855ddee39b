"""Feather and its relatives in both engines: invariants hold, macro-stepping changes nothing."""

import pickle
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.batching.dynamic_batching import DynamicBatching
from policies.batching.feather.scheduler import Feather
from policies.batching.feather_heuristic import FeatherHeuristic
from policies.batching.hash_tree import HashTree
from policies.batching.oracle import Oracle
from policies.batching.radix_cost import RadixCost
from sim.interfaces import BatchPolicy
from tests.engine_runs import LinearCost, run_engine
from tests.property.test_macro_stepping import columns
from tests.sglang_runs import options_of, random_limits, run_sglang
from tests.twin.loops import random_loop
from tests.twin.workloads import random_workload

Make = Callable[[], BatchPolicy]

POLICIES: dict[str, Make] = {
    "feather": partial(Feather, 20),
    "feather without prefill": partial(Feather, 20, reward="exclude_prefill", exploration=5.0),
    "feather by q_learning": partial(Feather, 20, learner="q_learning", epsilon=0.3),
    "feather with ageing": partial(Feather, 20, max_wait_s=0.05),
    "feather_heuristic": partial(FeatherHeuristic, 20, 1, 2, 3, 4),
    "hash_tree": partial(HashTree, 30),
    "radix_cost": RadixCost,
    "oracle": Oracle,
    "oracle of two nodes": partial(Oracle, 2),
    "dynamic_batching": partial(
        DynamicBatching, 0.006, window_steps=3, max_batch=9, narrow_by=2, widen_by=1
    ),
}

seeds = st.integers(0, 2**32)


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=25, deadline=None)
@given(seed=seeds, structured=st.booleans(), is_loop=st.booleans(), is_async=st.booleans())
def test_under_vllm_macro_steps_give_bitwise_the_same_records(
    name: str, seed: int, structured: bool, is_loop: bool, is_async: bool
) -> None:
    load = random_loop if is_loop else random_workload
    workload, limits = load(seed, structured=structured, step_s=0.01, max_requests=60)
    macro, plain = (
        run_engine(
            workload,
            usable_blocks=limits["num_gpu_blocks"] - 1,
            seats=limits["max_num_seqs"],
            budget=limits["max_num_batched_tokens"],
            block_tokens=16,
            cost=LinearCost(),
            batching=lambda _index: POLICIES[name](),
            is_async=is_async,
            macro_steps=macro_steps,
        )
        for macro_steps in (True, False)
    )
    assert columns(macro) == columns(plain)


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=15, deadline=None)
@given(seed=seeds, structured=st.booleans(), is_loop=st.booleans())
def test_under_sglang_macro_steps_give_bitwise_the_same_records(
    name: str, seed: int, structured: bool, is_loop: bool
) -> None:
    load = random_loop if is_loop else random_workload
    workload, _ = load(seed, structured=structured, step_s=0.01, max_requests=60)
    options = options_of(random_limits(seed, workload))
    macro, plain = (
        run_sglang(
            workload,
            cost=LinearCost(),
            batching=lambda _index: POLICIES[name](),
            macro_steps=macro_steps,
            **options,
        )
        for macro_steps in (True, False)
    )
    assert columns(macro) == columns(plain)


@pytest.mark.parametrize("name", POLICIES)
def test_a_pickled_policy_decides_as_the_original(name: str) -> None:
    workload, _ = random_workload(4, structured=False, step_s=0.01)
    first, second = (
        run_engine(workload, usable_blocks=1000, budget=300, cost=LinearCost(), batching=batching)
        for batching in (
            lambda _index: POLICIES[name](),
            lambda _index: pickle.loads(pickle.dumps(POLICIES[name]())),
        )
    )
    assert columns(first) == columns(second)
