"""Closed loops: macro-stepping changes nothing, and arrivals follow the ends of requests."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.admission.token_bucket import TokenBucket
from policies.batching.fcfs import FCFS
from policies.routing.jsq import JSQ
from policies.routing.least_tokens import LeastTokens
from policies.routing.round_robin import RoundRobin
from policies.routing.vllm_dp import VllmDp
from sim.interfaces import BatchPolicy, InstanceView, Router
from sim.records import SimulationResult
from sim.request import Request
from sim.workload import Workload
from tests.engine_runs import ConstantCost, LinearCost, run_engine, token_steps
from tests.twin.loops import random_loop
from tests.twin.scheduler import run_twin

STEP_S = 0.25
"""A power of two, so that step ends and delays of whole steps tie exactly."""


class Curious(FCFS):
    """Looks up every waiting request and the free blocks whenever something happens."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def look(self, instance: InstanceView, request: Request, now_s: float) -> None:
        cached = [instance.cached_tokens(waiting) for waiting in instance.waiting.values()]
        self.seen += [instance.num_free_blocks, *cached]

    on_arrival = look


class ShortestFirst(BatchPolicy):
    """Every arrival may overtake a blocked head."""

    def candidates(self, instance: InstanceView, now_s: float) -> list[Request]:
        waiting = instance.waiting.values()
        return sorted(waiting, key=lambda r: (r.prompt_tokens, r.arrival_s, r.request_id))


@dataclass(frozen=True)
class Case:
    """A workload and a cluster, without the choice of stepping."""

    workload: Workload
    options: dict[str, Any]
    policy: type[BatchPolicy]
    router: type[Router]
    bucket: tuple[float, float] | None

    def run(self, macro_steps: bool) -> tuple[SimulationResult, list[list[int]]]:
        """The records, and what curious policies saw."""
        seen: list[list[int]] = []

        def batching(_index: int) -> BatchPolicy:
            policy = self.policy()
            if isinstance(policy, Curious):
                seen.append(policy.seen)
            return policy

        result = run_engine(
            self.workload,
            batching=batching,
            router=self.router(),
            admission=None if self.bucket is None else TokenBucket(*self.bucket),
            macro_steps=macro_steps,
            **self.options,
        )
        return result, seen


policies: st.SearchStrategy[type[BatchPolicy]] = st.sampled_from([FCFS, Curious, ShortestFirst])
routers: st.SearchStrategy[type[Router]] = st.sampled_from([RoundRobin, JSQ, LeastTokens, VllmDp])


@st.composite
def cases(draw: st.DrawFn) -> Case:
    is_tied = draw(st.booleans())
    step_s = STEP_S if is_tied else 0.01
    seed = draw(st.integers(0, 2**32))
    workload, limits = random_loop(seed, structured=is_tied, step_s=step_s)
    blocks = limits["num_gpu_blocks"] - 1
    too_few = int(np.quantile(workload.prompt_tokens + workload.output_tokens, 0.8)) // 16 + 1
    view = draw(
        st.sampled_from(
            [
                {},
                {},
                {"publish_period_s": step_s},
                {"publish_period_s": 3 * step_s},
                {"view_delay_s": step_s},
                {"view_delay_s": 1.7 * step_s},
            ]
        )
    )
    options: dict[str, Any] = {
        "usable_blocks": draw(st.sampled_from([blocks, blocks, min(blocks, too_few)])),
        "seats": limits["max_num_seqs"],
        "budget": limits["max_num_batched_tokens"],
        "block_tokens": 16,
        "cost": ConstantCost(step_s) if is_tied else LinearCost(),
        "is_async": draw(st.booleans()),
        "num_instances": draw(st.sampled_from([1, 2, 3])),
        **view,
    }
    burst = draw(st.sampled_from([None, None, (50 / step_s, 300.0)]))
    return Case(workload, options, draw(policies), draw(routers), burst)


def columns(result: SimulationResult) -> dict[str, Any]:
    requests = result.requests
    names = [n for n in requests.__slots__ if n != "more_intervals"]
    found: dict[str, Any] = {n: getattr(requests, n).tobytes() for n in names}
    found["more_intervals"] = dict(requests.more_intervals)
    found["step_ends"] = [i.step_end_s.tobytes() for i in result.instances]
    found["busy_from_s"] = [i.busy_from_s.tobytes() for i in result.instances]
    found["end_s"] = result.end_s
    return found


@settings(max_examples=150, deadline=None)
@given(case=cases())
def test_macro_steps_on_and_off_give_bitwise_the_same_records(case: Case) -> None:
    macro, seen_macro = case.run(True)
    plain, seen_plain = case.run(False)
    assert columns(macro) == columns(plain)
    assert seen_macro == seen_plain


@pytest.mark.parametrize("macro_steps", [True, False], ids=["macro", "plain"])
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), structured=st.booleans(), is_async=st.booleans())
def test_arrivals_hits_and_tokens_equal_those_of_the_twin(
    macro_steps: bool, seed: int, structured: bool, is_async: bool
) -> None:
    workload, limits = random_loop(seed, structured=structured)
    blocks, seats = limits["num_gpu_blocks"], limits["max_num_seqs"]
    budget = limits["max_num_batched_tokens"]
    twin = run_twin(
        workload,
        num_gpu_blocks=blocks,
        max_num_seqs=seats,
        max_num_batched_tokens=budget,
        async_scheduling=is_async,
        hash_in_flight_input=False,
    )
    ours = run_engine(
        workload,
        usable_blocks=blocks - 1,
        seats=seats,
        budget=budget,
        block_tokens=16,
        is_async=is_async,
        macro_steps=macro_steps,
    )
    assert ours.requests.arrival_s.tolist() == twin.arrival_s
    assert ours.requests.cached_tokens.tolist() == [r.cached_tokens for r in twin.requests]
    assert ours.requests.num_preemptions.tolist() == [r.num_preemptions for r in twin.requests]
    assert token_steps(ours) == [r.token_steps for r in twin.requests]
    assert ours.instances[0].step_end_s.tolist() == twin.step_end_s
