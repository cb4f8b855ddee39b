"""Macro-stepping changes no record: bitwise the same as planning every step on its own."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.batching.fcfs import FCFS
from sim.interfaces import BatchPolicy, CostModel, InstanceView
from sim.metrics import summarize
from sim.records import SimulationResult
from sim.request import Request
from tests.engine_runs import ConstantCost, LinearCost, run_engine
from tests.twin.workloads import random_workload


class ShortestFirst(BatchPolicy):
    """Not in order of arrival: every arrival may overtake a blocked head."""

    def candidates(self, instance: InstanceView, now_s: float) -> list[Request]:
        waiting = instance.waiting.values()
        return sorted(waiting, key=lambda r: (r.prompt_tokens, r.arrival_s, r.request_id))


class SmallBatches(ShortestFirst):
    """Looks at the running batch in every step and stops early."""

    decides = "every_step"

    def candidates(self, instance: InstanceView, now_s: float) -> list[Request]:
        return super().candidates(instance, now_s)[: max(0, 3 - len(instance.running))]


policies: st.SearchStrategy[type[BatchPolicy]] = st.sampled_from(
    [FCFS, ShortestFirst, SmallBatches]
)
costs: st.SearchStrategy[CostModel] = st.sampled_from([ConstantCost(0.01), LinearCost()])


def columns(result: SimulationResult) -> dict[str, Any]:
    requests = result.requests
    names = [n for n in requests.__slots__ if n != "more_intervals"]
    found: dict[str, Any] = {n: getattr(requests, n).tobytes() for n in names}
    found["more_intervals"] = dict(requests.more_intervals)
    found["step_ends"] = [i.step_end_s.tobytes() for i in result.instances]
    found["bytes"] = [i.costs.hbm_bytes for i in result.instances]
    return found


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    structured=st.booleans(),
    cost=costs,
    policy=policies,
    is_async=st.booleans(),
    caching=st.booleans(),
    num_instances=st.sampled_from([1, 1, 3]),
)
def test_macro_steps_on_and_off_give_bitwise_the_same_records(
    seed: int,
    structured: bool,
    cost: CostModel,
    policy: type[BatchPolicy],
    is_async: bool,
    caching: bool,
    num_instances: int,
) -> None:
    workload, limits = random_workload(seed, structured=structured, step_s=0.01)
    results = [
        run_engine(
            workload,
            usable_blocks=limits["num_gpu_blocks"] - 1,
            seats=limits["max_num_seqs"],
            budget=limits["max_num_batched_tokens"],
            block_tokens=16,
            cost=cost,
            batching=lambda _index: policy(),
            is_async=is_async,
            prefix_caching=caching,
            num_instances=num_instances,
            macro_steps=macro_steps,
        )
        for macro_steps in (True, False)
    ]
    macro, plain = results
    assert columns(macro) == columns(plain)
    assert sum(len(i.runs) for i in macro.instances) <= sum(len(i.runs) for i in plain.instances)
    first, second = (summarize(r, slo_ttft_s=1, slo_tpot_s=0.02) for r in results)
    for name, value in first.items():
        other = second[name]
        if isinstance(value, float) and isinstance(other, float):
            assert np.isclose(value, other, rtol=1e-9, atol=0), name
        else:
            assert value == other, name
