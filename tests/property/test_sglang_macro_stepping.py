"""Macro-stepping changes no record of the SGLang engine either, bitwise."""

from hypothesis import given, settings
from hypothesis import strategies as st

from policies.batching.fcfs import FCFS
from sim.interfaces import BatchPolicy, CostModel, InstanceView
from sim.metrics import summarize
from sim.request import Request
from tests.engine_runs import ConstantCost, LinearCost
from tests.property.test_macro_stepping import ShortestFirst, SmallBatches, columns
from tests.sglang_runs import options_of, random_limits, run_sglang
from tests.twin.loops import random_loop
from tests.twin.workloads import random_workload


class Sealed(ShortestFirst):
    """Offers nobody while three run, and need not be asked again until that changes."""

    def candidates(self, instance: InstanceView, now_s: float) -> list[Request]:
        return super().candidates(instance, now_s)[: max(0, 3 - len(instance.running))]


class LongestHit(BatchPolicy):
    """Reads the cache for its order."""

    def candidates(self, instance: InstanceView, now_s: float) -> list[Request]:
        waiting = instance.waiting.values()
        return sorted(waiting, key=lambda r: (-instance.cached_tokens(r), r.request_id))


policies: st.SearchStrategy[type[BatchPolicy]] = st.sampled_from(
    [FCFS, ShortestFirst, SmallBatches, Sealed, LongestHit]
)
costs: st.SearchStrategy[CostModel] = st.sampled_from([ConstantCost(0.01), LinearCost()])


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    structured=st.booleans(),
    is_loop=st.booleans(),
    cost=costs,
    policy=policies,
    num_instances=st.sampled_from([1, 1, 3]),
)
def test_macro_steps_on_and_off_give_bitwise_the_same_records(
    seed: int,
    structured: bool,
    is_loop: bool,
    cost: CostModel,
    policy: type[BatchPolicy],
    num_instances: int,
) -> None:
    load = random_loop if is_loop else random_workload
    workload, _ = load(seed, structured=structured, step_s=0.01, max_requests=60)
    options = options_of(random_limits(seed, workload))
    macro, plain = (
        run_sglang(
            workload,
            cost=cost,
            batching=lambda _index: policy(),
            num_instances=num_instances,
            macro_steps=macro_steps,
            **options,
        )
        for macro_steps in (True, False)
    )
    assert columns(macro) == columns(plain)
    assert sum(len(i.runs) for i in macro.instances) <= sum(len(i.runs) for i in plain.instances)
    first, second = (summarize(r, slo_ttft_s=1, slo_tpot_s=0.02) for r in (macro, plain))
    usage = "kv_usage_mean_ratio"
    assert abs((first[usage] or 0) - (second[usage] or 0)) < 1e-9
    assert first["itl_mean_s"] == second["itl_mean_s"]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), horizon=st.integers(0, 60))
def test_a_horizon_cuts_both_at_the_same_tokens(seed: int, horizon: int) -> None:
    workload, _ = random_workload(seed, structured=False, max_requests=30)
    options = options_of(random_limits(seed, workload))
    macro, plain = (
        run_sglang(workload, horizon_s=horizon + 0.5, macro_steps=macro_steps, **options)
        for macro_steps in (True, False)
    )
    assert columns(macro) == columns(plain)
