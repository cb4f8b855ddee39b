"""What is read in the middle of a run does not depend on macro-stepping, and changes nothing."""

from typing import Any

import numpy as np
import pytest

from policies.batching.fcfs import FCFS
from policies.routing.least_tokens import LeastTokens
from policies.routing.vllm_dp import VllmDp
from sim.interfaces import InstanceView
from sim.metrics import summarize
from sim.request import Request
from tests.engine_runs import LinearCost, run_engine
from tests.twin.stories import Ask, workload_of
from tests.twin.workloads import random_workload
from tests.unit.sim.probes import Probe


class Watching(FCFS):
    """Notes the free blocks at every arrival."""

    def __init__(self, seen: list[int]) -> None:
        self.seen = seen

    def on_arrival(self, instance: InstanceView, request: Request, now_s: float) -> None:
        self.seen.append(instance.num_free_blocks)


@pytest.mark.parametrize("macro_steps", [True, False])
def test_free_blocks_are_those_of_the_instant(macro_steps: bool) -> None:
    seen: list[int] = []
    asks = [Ask(0, 4, 40), Ask(20.5, 4, 1)]
    run_engine(workload_of(asks), batching=lambda _index: Watching(seen), macro_steps=macro_steps)
    # 20 steps have ended and step 21 is planned: its token 24 fills block 6 of 100.
    assert seen == [100, 94]


@pytest.mark.parametrize("macro_steps", [True, False])
def test_a_delayed_report_is_sent_when_counters_change(macro_steps: bool) -> None:
    probe = Probe()
    asks = [Ask(0, 4, 30), Ask(10.5, 4, 3)]
    run_engine(workload_of(asks), router=probe, view_delay_s=2.0, macro_steps=macro_steps)
    # The last change seen is the admission, when the prompt was planned.
    assert probe.kv_tokens == [(0,), (4,)]


@pytest.mark.parametrize("router", [VllmDp, LeastTokens])
@pytest.mark.parametrize("view", [{"view_delay_s": 0.05}, {"publish_period_s": 0.03}])
@pytest.mark.parametrize("is_async", [False, True])
def test_stale_views_do_not_depend_on_macro_steps(
    router: type[Any], view: dict[str, float], is_async: bool
) -> None:
    for seed in range(12):
        workload, limits = random_workload(seed, structured=False, step_s=0.01)
        choices = [
            run_engine(
                workload,
                usable_blocks=limits["num_gpu_blocks"] - 1,
                budget=limits["max_num_batched_tokens"],
                seats=limits["max_num_seqs"],
                block_tokens=16,
                num_instances=3,
                cost=LinearCost(),
                router=router(),
                is_async=is_async,
                macro_steps=macro_steps,
                **view,
            ).requests.instance.tolist()
            for macro_steps in (True, False)
        ]
        assert choices[0] == choices[1]


class Curious(FCFS):
    """Looks up every waiting request whenever something happens."""

    def look(self, instance: InstanceView, request: Request, now_s: float) -> None:
        for waiting in instance.waiting.values():
            instance.cached_tokens(waiting)

    on_finish = look
    on_arrival = look


def test_looking_up_the_cache_during_a_preemption_changes_nothing() -> None:
    asks = [
        Ask(0, 4, 5),
        Ask(0, 4, 8),
        Ask(0, 4, 12, (0,), 1),
        Ask(2, 3, 5),
        Ask(2, 17, 3, (0, 1)),
    ]
    workload = workload_of(asks, [(-1, 4), (0, 12)])
    plain, curious = (
        run_engine(workload, usable_blocks=7, is_async=True, batching=lambda _i, p=policy: p())
        for policy in (FCFS, Curious)
    )
    assert plain.requests.num_preemptions.sum() > 0
    assert (plain.instances[0].runs == curious.instances[0].runs).all()


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("horizon_s", [0.5, 20.0, 500.5])
def test_a_horizon_cuts_the_run_in_flight(is_async: bool, horizon_s: float) -> None:
    asks = [Ask(0, 36, 900), Ask(3, 8, 2)]
    macro, plain = (
        run_engine(
            workload_of(asks),
            usable_blocks=400,
            is_async=is_async,
            horizon_s=horizon_s,
            macro_steps=macro_steps,
        )
        for macro_steps in (True, False)
    )
    (a,), (b,) = macro.instances, plain.instances
    assert len(a.step_end_s) == int(horizon_s)
    assert np.array_equal(a.step_end_s, b.step_end_s)
    assert a.run_column("num_steps").sum() == len(a.step_end_s)
    assert a.costs == b.costs
    first, second = (
        {k: v for k, v in summarize(r, slo_ttft_s=1, slo_tpot_s=1).items() if v is not None}
        for r in (macro, plain)
    )
    assert first == pytest.approx(second, rel=1e-12)
    assert first["kv_usage_mean_ratio"] <= 1.0
