"""Queue orders under both engines: macro-stepping changes no record, with scheduler time or not."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.batching.dfs_weight import DfsWeight
from policies.batching.fcfs import FCFS
from policies.batching.lof import LOF
from policies.batching.lpm import LPM
from policies.batching.random_order import RandomOrder
from policies.batching.shortest_prefill import ShortestPrefill
from sim.interfaces import BatchPolicy, InstanceView
from sim.metrics import summarize
from sim.records import SimulationResult
from sim.request import Request
from sim.scheduler_cost import SchedulerCost
from sim.workload import Workload
from tests.engine_runs import LinearCost, run_engine
from tests.property.test_macro_stepping import columns
from tests.sglang_runs import options_of, random_limits, run_sglang
from tests.twin.loops import random_loop
from tests.twin.workloads import random_workload

ORDERS: list[type[BatchPolicy]] = [LPM, DfsWeight, LOF, RandomOrder, ShortestPrefill]
SLOW = SchedulerCost(
    token_compared_s=2e-5, node_visit_s=1e-4, candidate_s=1e-4, request_s=7e-5, language_factor=1.5
)
SLOWER = SchedulerCost(candidate_s=3e-3, request_s=2e-3)
"""Most steps of an asynchronous engine wait for it."""


class CountsArrivals(LOF):
    """Longest output first, with work to do when a request arrives."""

    def on_arrival(self, instance: InstanceView, request: Request, now_s: float) -> None:
        self.operations.candidates_scanned += 7


orders = st.sampled_from([*ORDERS, FCFS, CountsArrivals])
schedulers = st.sampled_from([None, SLOW, SLOWER])


def vllm_options(limits: Any, is_async: bool) -> dict[str, Any]:
    return {
        "usable_blocks": limits["num_gpu_blocks"] - 1,
        "seats": limits["max_num_seqs"],
        "budget": limits["max_num_batched_tokens"],
        "block_tokens": 16,
        "is_async": is_async,
    }


def assert_macro_steps_change_nothing(
    run: Callable[..., SimulationResult],
    workload: Workload,
    policy: type[BatchPolicy],
    **options: Any,
) -> None:
    macro, plain = (
        run(
            workload,
            cost=LinearCost(),
            batching=lambda _index: policy(),
            macro_steps=macro_steps,
            **options,
        )
        for macro_steps in (True, False)
    )
    assert columns(macro) == columns(plain)
    assert macro.costs.scheduler_s == plain.costs.scheduler_s
    cpu_s = [[i.scheduler_cpu_s for i in result.instances] for result in (macro, plain)]
    assert cpu_s[0] == cpu_s[1]
    first, second = (
        summarize(r, slo_ttft_s=1, slo_tpot_s=0.02)["scheduler_cpu_ratio"] for r in (macro, plain)
    )
    assert first == second


@settings(max_examples=120, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    structured=st.booleans(),
    is_loop=st.booleans(),
    policy=orders,
    scheduler=schedulers,
    is_async=st.booleans(),
    num_instances=st.sampled_from([1, 1, 3]),
)
def test_macro_steps_change_no_record_of_vllm(
    seed: int,
    structured: bool,
    is_loop: bool,
    policy: type[BatchPolicy],
    scheduler: SchedulerCost | None,
    is_async: bool,
    num_instances: int,
) -> None:
    load = random_loop if is_loop else random_workload
    workload, limits = load(seed, structured=structured, step_s=0.01, max_requests=60)
    assert_macro_steps_change_nothing(
        run_engine,
        workload,
        policy,
        scheduler=scheduler,
        num_instances=num_instances,
        **vllm_options(limits, is_async),
    )


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    structured=st.booleans(),
    is_loop=st.booleans(),
    policy=orders,
    scheduler=schedulers,
)
def test_macro_steps_change_no_record_of_sglang(
    seed: int,
    structured: bool,
    is_loop: bool,
    policy: type[BatchPolicy],
    scheduler: SchedulerCost | None,
) -> None:
    load = random_loop if is_loop else random_workload
    workload, _ = load(seed, structured=structured, step_s=0.01, max_requests=60)
    options = options_of(random_limits(seed, workload))
    assert_macro_steps_change_nothing(run_sglang, workload, policy, scheduler=scheduler, **options)


class RareLPM(LPM):
    """Claims that its order depends on the waiting and running sets only."""

    decides = "on_change"


class RareShortestPrefill(ShortestPrefill):
    """The same."""

    decides = "on_change"


@pytest.mark.parametrize(
    ("rare", "policy", "seed"),
    [(RareLPM, LPM, 28), (RareShortestPrefill, ShortestPrefill, 29), (RareLPM, LPM, 302)],
)
def test_an_order_that_reads_the_cache_must_be_asked_in_every_step(
    rare: type[BatchPolicy], policy: type[BatchPolicy], seed: int
) -> None:
    """Blocks that decodes take were cached prefixes of requests that wait for blocks."""
    workload, limits = random_workload(seed, structured=False, step_s=0.01, max_requests=60)
    options = vllm_options(limits, False)
    assert_macro_steps_change_nothing(run_engine, workload, policy, **options)
    with pytest.raises(AssertionError):
        assert_macro_steps_change_nothing(run_engine, workload, rare, **options)


@pytest.mark.parametrize("policy", ORDERS)
@pytest.mark.parametrize("scheduler", [None, SLOW])
def test_the_same_run_gives_the_same_records(
    policy: type[BatchPolicy], scheduler: SchedulerCost | None
) -> None:
    workload, limits = random_workload(11, structured=False, step_s=0.01)
    options = {**vllm_options(limits, False), "scheduler": scheduler, "cost": LinearCost()}
    first, again = (
        run_engine(workload, batching=lambda _index: policy(), **options) for _ in range(2)
    )
    assert columns(first) == columns(again)
    assert first.costs == again.costs


def test_every_order_is_one_of_its_own() -> None:
    """On a queue with shared prefixes under KV pressure no two of them do the same."""
    found: dict[type[BatchPolicy], bytes] = {}
    policies: list[type[BatchPolicy]] = [*ORDERS, FCFS]
    for policy in policies:
        workload, limits = random_workload(3, structured=False, step_s=0.01, max_requests=80)
        options = {**vllm_options(limits, False), "seats": 3}
        result = run_engine(workload, batching=lambda _index: policy(), **options)  # noqa: B023
        found[policy] = result.requests.admitted_s.tobytes()
    assert len(set(found.values())) == len(found)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), policy=st.sampled_from(ORDERS))
def test_scheduler_time_without_prices_changes_no_record(
    seed: int, policy: type[BatchPolicy]
) -> None:
    workload, limits = random_workload(seed, structured=False, step_s=0.01, max_requests=40)
    options = {**vllm_options(limits, False), "cost": LinearCost()}
    off, on = (
        run_engine(workload, batching=lambda _index: policy(), scheduler=scheduler, **options)
        for scheduler in (None, SchedulerCost())
    )
    assert columns(off) == columns(on)
