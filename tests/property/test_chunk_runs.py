"""Runs of prefill chunks change no record, and nobody who looks in the middle sees a difference."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hwmodels.device import load_profile
from hwmodels.model_catalogue import load_model
from hwmodels.roofline import RooflineCost
from policies.batching.fcfs import FCFS
from sim.instance import Instance
from sim.interfaces import ClusterView, CostModel, Router
from sim.records import SimulationResult
from sim.request import Request
from sim.vllm_v1 import VllmV1
from tests.engine_runs import ConstantCost, LinearCost, run_engine
from tests.twin.loops import random_loop
from tests.twin.workloads import random_workload

STEP_S = 0.01

ROOFLINE = RooflineCost(load_profile("a100_sxm_80gb"), load_model("llama3_8b"))


class Looking(Router):
    """Spreads requests in turn, and notes all that a router can see before it decides."""

    uses_prefix_match = True
    uses_kv_usage = True

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        turn = request.request_id
        if turn % 2:  # every second time what is queued is left to be counted later
            columns = [cluster.queued_prefill_tokens, cluster.kv_usage(), cluster.kv_tokens()]
            columns += [cluster.num_waiting, cluster.num_running, cluster.queued_hit_tokens]
            self.seen.append(tuple(tuple(column) for column in columns))
        if turn % 3:
            self.seen.append(tuple(cluster.matched_tokens(request)))
        return turn % cluster.num_instances


class CountingRules(VllmV1):
    """vLLM's rules, which count the steps of prefills that they planned in runs."""

    num_chunks = 0

    def plan_step(self, instance: Instance, now_s: float) -> int:
        num_steps = super().plan_step(instance, now_s)
        if instance.plan.chunks and num_steps > 1:
            self.num_chunks += num_steps
        return num_steps


def records(result: SimulationResult) -> dict[str, Any]:
    requests = result.requests
    names = [n for n in requests.__slots__ if n != "more_intervals"]
    found: dict[str, Any] = {n: getattr(requests, n).tobytes() for n in names}
    found["more_intervals"] = dict(requests.more_intervals)
    found["step_ends"] = [i.step_end_s.tobytes() for i in result.instances]
    found["prefills"] = [i.runs[i.runs["num_prefills"] > 0].tobytes() for i in result.instances]
    found["bytes"] = [i.costs.hbm_bytes for i in result.instances]
    return found


@st.composite
def loads(draw: st.DrawFn) -> tuple[Any, dict[str, Any]]:
    """A workload whose prompts are long for the budget, and options of its cluster."""
    load = draw(st.sampled_from([random_workload, random_workload, random_loop]))
    seed = draw(st.integers(0, 2**32))
    workload, limits = load(seed, structured=draw(st.booleans()), step_s=STEP_S)
    seats = draw(st.integers(1, 8))
    cost: CostModel = draw(st.sampled_from([ConstantCost(STEP_S), LinearCost(), ROOFLINE]))
    options: dict[str, Any] = {
        "usable_blocks": limits["num_gpu_blocks"] - 1,
        "budget": draw(st.integers(seats, 60)),
        "seats": seats,
        "is_async": draw(st.booleans()),
        "cost": cost,
        "block_tokens": 16,
        "num_instances": draw(st.sampled_from([1, 1, 3])),
        "prefix_caching": draw(st.sampled_from([True, True, False])),
        **draw(st.sampled_from([{}, {}, {"view_delay_s": 0.035}, {"publish_period_s": 0.05}])),
    }
    return workload, options


@settings(max_examples=200, deadline=None)
@given(load=loads())
def test_runs_of_chunks_change_no_record_and_no_look(load: tuple[Any, dict[str, Any]]) -> None:
    workload, options = load
    routers = Looking(), Looking()
    macro, plain = (
        run_engine(workload, router=router, macro_steps=macro_steps, **options)
        for router, macro_steps in zip(routers, (True, False), strict=True)
    )
    assert records(macro) == records(plain)
    assert routers[0].seen == routers[1].seen


@settings(max_examples=60, deadline=None)
@given(load=loads(), horizon=st.floats(0.05, 0.95))
def test_a_run_of_chunks_that_the_horizon_ends_counts_its_ended_steps(
    load: tuple[Any, dict[str, Any]], horizon: float
) -> None:
    workload, options = load
    options["cost"] = ROOFLINE
    end_s = run_engine(workload, macro_steps=False, **options).end_s
    macro, plain = (
        run_engine(workload, horizon * end_s, macro_steps=macro_steps, **options)
        for macro_steps in (True, False)
    )
    assert records(macro) == records(plain)


def test_most_chunks_of_long_prompts_are_planned_in_runs() -> None:
    workload, limits = random_workload(7, structured=False, step_s=STEP_S)
    rules = CountingRules(2, 24)
    result = run_engine(
        workload,
        rules=rules,
        usable_blocks=limits["num_gpu_blocks"] - 1,
        block_tokens=16,
        batching=lambda _index: FCFS(),
    )
    prefills = result.instances[0].run_column("num_prefills")
    assert rules.num_chunks > 0.4 * (prefills > 0).sum()
