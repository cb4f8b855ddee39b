"""Macro-stepping changes no record where prefill and decode are apart either."""

from dataclasses import fields
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.batching.fcfs import FCFS
from policies.routing.jsq import JSQ
from policies.routing.least_requests import LeastRequests
from policies.routing.least_tokens import LeastTokens
from policies.routing.most_hit import MostHit
from sim.disaggregation.direct import DirectFeeder
from sim.interfaces import BatchPolicy, CostModel, InstanceView, Router
from sim.metrics import summarize
from sim.records import SimulationResult
from sim.request import Request
from tests.disaggregated_runs import run_disaggregated
from tests.engine_runs import ConstantCost, LinearCost
from tests.twin.loops import random_loop
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
costs: st.SearchStrategy[CostModel] = st.sampled_from(
    [ConstantCost(0.01), ConstantCost(0.25), LinearCost()]
)


def columns(result: SimulationResult) -> dict[str, Any]:
    requests, handover = result.requests, result.handover
    assert handover is not None
    names = [n for n in requests.__slots__ if n != "more_intervals"]
    found: dict[str, Any] = {n: getattr(requests, n).tobytes() for n in names}
    found["more_intervals"] = dict(requests.more_intervals)
    found["step_ends"] = [i.step_end_s.tobytes() for i in result.instances]
    found["bytes"] = [i.costs.hbm_bytes for i in result.instances]
    for item in fields(handover):
        value = getattr(handover, item.name)
        if item.name != "more_block_seconds":
            found[item.name] = value.tobytes() if isinstance(value, np.ndarray) else value
    return found


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    structured=st.booleans(),
    cost=costs,
    policy=policies,
    caching=st.booleans(),
    layerwise=st.booleans(),
    num_prefill=st.sampled_from([1, 1, 2]),
    num_decode=st.sampled_from([1, 1, 3]),
    num_mixed=st.sampled_from([0, 0, 1]),
    # Of a transfer of 100 tokens: none, about a step, about 100 steps.
    bytes_per_s=st.sampled_from([1e12, 1e4, 1e2]),
    latency_s=st.sampled_from([0.0, 0.01, 0.0123]),
    tight=st.booleans(),
    router=st.sampled_from([LeastRequests, MostHit]),
    view=st.sampled_from(
        [{}, {}, {"publish_period_s": 0.01}, {"publish_period_s": 0.03}, {"view_delay_s": 0.017}]
    ),
)
def test_macro_steps_on_and_off_give_bitwise_the_same_records(
    seed: int,
    structured: bool,
    cost: CostModel,
    policy: type[BatchPolicy],
    caching: bool,
    layerwise: bool,
    num_prefill: int,
    num_decode: int,
    num_mixed: int,
    bytes_per_s: float,
    latency_s: float,
    tight: bool,
    router: type[Router],
    view: dict[str, float],
) -> None:
    workload, limits = random_workload(seed, structured=structured, step_s=0.01)
    usable = limits["num_gpu_blocks"] - 1
    results = [
        run_disaggregated(
            workload,
            usable_blocks=usable,
            decode_blocks=usable if tight else 3 * usable,
            seats=limits["max_num_seqs"],
            decode_seats=limits["max_num_seqs"],
            budget=limits["max_num_batched_tokens"],
            decode_budget=limits["max_num_batched_tokens"],
            block_tokens=16,
            cost=cost,
            batching=lambda _index: policy(),
            decode_batching=lambda _index: policy(),
            prefix_caching=caching,
            num_prefill=num_prefill,
            num_decode=num_decode,
            num_mixed=num_mixed,
            bytes_per_s=bytes_per_s,
            latency_s=latency_s,
            feeder=lambda: DirectFeeder(layerwise),
            router=router(),
            macro_steps=macro_steps,
            **view,
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


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    structured=st.booleans(),
    cost=costs,
    layerwise=st.booleans(),
    num_decode=st.sampled_from([1, 2]),
    num_mixed=st.sampled_from([0, 1]),
    bytes_per_s=st.sampled_from([1e12, 400.0, 64.0]),
    router=st.sampled_from([JSQ, LeastTokens]),
    tight=st.booleans(),
)
def test_nor_in_a_closed_loop(
    seed: int,
    structured: bool,
    cost: CostModel,
    layerwise: bool,
    num_decode: int,
    num_mixed: int,
    bytes_per_s: float,
    router: type[Router],
    tight: bool,
) -> None:
    """Follow-ups tie with step ends, transfers and hand-overs: steps and delays are dyadic."""
    workload, limits = random_loop(seed, structured=structured, step_s=0.25)
    usable = limits["num_gpu_blocks"] - 1
    macro, plain = (
        run_disaggregated(
            workload,
            usable_blocks=usable,
            decode_blocks=usable if tight else 3 * usable,
            seats=limits["max_num_seqs"],
            decode_seats=limits["max_num_seqs"],
            budget=limits["max_num_batched_tokens"],
            decode_budget=limits["max_num_batched_tokens"],
            block_tokens=16,
            cost=cost,
            num_decode=num_decode,
            num_mixed=num_mixed,
            bytes_per_s=bytes_per_s,
            router=router(),
            decode_router=router(),
            feeder=lambda: DirectFeeder(layerwise),
            macro_steps=macro_steps,
        )
        for macro_steps in (True, False)
    )
    assert columns(macro) == columns(plain)
