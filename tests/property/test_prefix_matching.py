"""What a router is told of the caches is what the instances would answer, at every moment."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.batching.fcfs import FCFS
from policies.eviction.lru import LRU
from sim.interfaces import ClusterView, EvictionPolicy, InstanceView, Router
from sim.records import SimulationResult
from sim.request import Request
from tests.engine_runs import ConstantCost, LinearCost, run_engine
from tests.sglang_runs import options_of, random_limits, run_sglang
from tests.twin.loops import random_loop
from tests.twin.workloads import random_workload

NUM_INSTANCES = 3
STEP_S = 0.01

Run = Callable[..., SimulationResult]


class Seen(FCFS):
    """Makes its instance known to the test."""

    def __init__(self, instances: dict[int, InstanceView]) -> None:
        self.instances = instances

    def candidates(self, instance: InstanceView, now_s: float) -> Iterable[Request]:
        """In order of arrival, after a look at the cache that must not matter."""
        for request in instance.waiting.values():
            instance.cached_tokens(request)
        return super().candidates(instance, now_s)

    def on_arrival(self, instance: InstanceView, request: Request, now_s: float) -> None:
        self.instances[instance.instance_id] = instance


class Matching(Router):
    """Spreads requests, some to where most is cached, and notes what it is told.

    Every `check_every`-th time it also asks the instances themselves, after the view: to ask brings
    an instance to now, which must not be needed.
    """

    uses_prefix_match = True
    uses_kv_usage = True

    def __init__(self, check_every: int = 0) -> None:
        self.instances: dict[int, InstanceView] = {}
        self.told: list[list[int]] = []
        self.usage: list[list[float]] = []
        self.queued_hits: list[list[int]] = []
        self.num_checked = 0
        self._check_every = check_every

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        matched = list(cluster.matched_tokens(request))
        usage = list(cluster.kv_usage())
        self.told.append(matched)
        self.usage.append(usage)
        self.queued_hits.append(list(cluster.queued_hit_tokens))
        turn = request.request_id
        if self._check_every and turn % self._check_every == 0:
            instances = [self.instances.get(i) for i in range(cluster.num_instances)]
            assert matched == [0 if i is None else i.cached_tokens(request) for i in instances]
            held = [
                0.0 if i is None else 1 - i.num_free_blocks / i.num_usable_blocks for i in instances
            ]
            np.testing.assert_allclose(usage, held, atol=1e-12)
            self.num_checked += 1
        if turn % 3:
            return max(range(len(matched)), key=matched.__getitem__)
        return turn // 3 % cluster.num_instances


class LatestFirst(EvictionPolicy):
    """Evicts what was released last."""

    def key(self, owner: int, first_block: int, num_blocks: int, release_index: int) -> float:
        return -float(release_index)


def vllm_run(seed: int, **options: Any) -> Run:
    structured = seed % 2 == 0
    load = random_loop if options.pop("is_looped", False) else random_workload
    workload, limits = load(seed, structured=structured, step_s=STEP_S)

    def run(router: Matching, **more: Any) -> SimulationResult:
        return run_engine(
            workload,
            usable_blocks=limits["num_gpu_blocks"] - 1,
            seats=limits["max_num_seqs"],
            budget=limits["max_num_batched_tokens"],
            block_tokens=16,
            num_instances=NUM_INSTANCES,
            batching=lambda _index: Seen(router.instances),
            router=router,
            **options,
            **more,
        )

    return run


def engine_options(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "cost": draw(st.sampled_from([ConstantCost(STEP_S), LinearCost()])),
        "is_async": draw(st.booleans()),
        "eviction": draw(st.sampled_from([None, LRU, LatestFirst])),
        "is_looped": draw(st.booleans()),
    }


@st.composite
def runs(draw: st.DrawFn) -> Run:
    return vllm_run(draw(st.integers(0, 2**32)), **engine_options(draw))


@settings(max_examples=200, deadline=None)
@given(run=runs(), check_every=st.integers(1, 4), macro_steps=st.booleans())
def test_a_match_is_what_every_instance_would_answer(
    run: Run, check_every: int, macro_steps: bool
) -> None:
    router = Matching(check_every)
    run(router, macro_steps=macro_steps)
    assert router.num_checked


@settings(max_examples=150, deadline=None)
@given(
    run=runs(),
    view=st.sampled_from(
        [
            {},
            {"view_delay_s": 0.035},
            {"publish_period_s": 0.05},
            {"view_delay_s": 0.035, "assume_dispatches": True},
        ]
    ),
)
def test_what_a_router_is_told_does_not_depend_on_macro_steps(
    run: Run, view: dict[str, float]
) -> None:
    macro, plain = Matching(), Matching()
    results = [run(macro, macro_steps=True, **view), run(plain, macro_steps=False, **view)]
    assert macro.told == plain.told
    assert macro.queued_hits == plain.queued_hits
    assert macro.usage == plain.usage
    first, second = (result.requests for result in results)
    assert first.instance.tobytes() == second.instance.tobytes()
    assert first.finish_s.tobytes() == second.finish_s.tobytes()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), is_loop=st.booleans())
def test_under_sglang_a_match_is_what_every_instance_would_answer(seed: int, is_loop: bool) -> None:
    load = random_loop if is_loop else random_workload
    workload, _ = load(seed, structured=seed % 2 == 0, step_s=STEP_S)
    told = []
    for macro_steps in (True, False):
        router = Matching(check_every=2)
        run_sglang(
            workload,
            num_instances=NUM_INSTANCES,
            batching=lambda _index, seen=router.instances: Seen(seen),
            router=router,
            macro_steps=macro_steps,
            **options_of(random_limits(seed, workload)),
        )
        told.append((router.told, router.usage))
    assert told[0] == told[1]
