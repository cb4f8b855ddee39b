"""Every policy obeys its Protocol: legal decisions, the same again, unharmed by pickling."""

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from experiments.composing import compose_config
from experiments.job import load_workload, simulate_job
from experiments.results.json_text import json_text
from experiments.schema.job import JobConfig, read_job
from sim.arrivals import requests_of
from sim.decision_log import DecisionRecords
from sim.loads import Loads
from sim.request import PREFILLING, Request
from sim.tie_shift import refuse_shift, shifting_ties
from tests.conftest import TINY
from tests.contract.options import POLICIES, composed, options_in

NUM_INSTANCES = 5

PRESSURE = (
    "trace=sessions",
    "trace.num_requests=120",
    "trace.rate_per_s=200",
    "trace.think_time_s=0.5",
    "trace.user=20-200",
    "trace.output=1-120",
    "trace.num_system_prompts=3",
    "trace.system_prompt_tokens=300",
    "cluster.num_instances=3",
    "engine.num_gpu_blocks=140",
    "engine.max_num_seqs=16",
    "engine.max_num_batched_tokens=256",
    "check=true",
)
"""Shared prefixes, full caches, preemptions, queues: simulated with all invariants checked."""

KEEPS_SMALL_BATCHES = {"radix_cost"}
"""Policies that never fill the cache with running requests here, so that nobody is preempted."""

TIME_MEANS = (
    "mean_batch_size",
    "kv_usage_mean_ratio",
    "kv_reserved_mean_bytes",
    "load_imbalance_ratio",
    "gpu_time_s",
    "gpu_gemm_ratio",
    "gpu_attention_decode_ratio",
    "gpu_attention_prefill_ratio",
    "gpu_collective_ratio",
    "gpu_small_ops_ratio",
    "gpu_launch_ratio",
    "gpu_idle_ratio",
    "output_token_gpu_s",
)
"""Sums over runs of steps, which round otherwise than sums over single steps."""


def job_with(*overrides: str) -> JobConfig:
    return read_job(compose_config([*TINY, *overrides])[0])


def some_requests() -> list[Request]:
    return list(requests_of(load_workload(job_with("trace.num_requests=200"))))


def loads_after(k: int) -> Loads:
    """A view that changes from request to request."""
    loads = Loads(NUM_INSTANCES)
    for i in range(NUM_INSTANCES):
        loads.num_running[i] = (k * 7 + i * 3) % 11
        loads.num_waiting[i] = (k * 5 + i) % 3
        loads.num_requests[i] = loads.num_running[i] + loads.num_waiting[i]
        loads.queued_prefill_tokens[i] = 100 * loads.num_waiting[i]
    return loads


def routes(router: Any, first: int, last: int) -> Iterator[int]:
    for k, request in enumerate(some_requests()[first:last], first):
        loads = loads_after(k)
        before = pickle.dumps([loads.num_running, loads.num_waiting, loads.queued_prefill_tokens])
        yield router.route(request, loads, request.arrival_s)
        after = pickle.dumps([loads.num_running, loads.num_waiting, loads.queued_prefill_tokens])
        assert before == after, "the router changed its view"


@pytest.mark.parametrize("option", options_in("routing"))
def test_a_router_chooses_existing_instances_and_all_of_them(option: str) -> None:
    chosen = list(routes(job_with(f"routing={option}").routing.build(), 0, 200))
    assert set(chosen) == set(range(NUM_INSTANCES))


@pytest.mark.parametrize("option", options_in("routing"))
def test_a_router_decides_the_same_again_and_after_pickling(option: str) -> None:
    plugin = job_with(f"routing={option}").routing
    whole = list(routes(plugin.build(), 0, 200))
    router = plugin.build()
    first = list(routes(router, 0, 100))
    rest = list(routes(pickle.loads(pickle.dumps(router)), 100, 200))
    assert first + rest == whole


def choices_when_all_are_alike(option: str, tie_shift: int) -> list[int]:
    router = job_with(f"routing={option}").routing.build()
    refuse_shift(tie_shift, NUM_INSTANCES, router)
    route = shifting_ties(router.route, router, tie_shift, NUM_INSTANCES)
    loads = Loads(NUM_INSTANCES)
    asks = [Request(None, k, 0.0, 640, 10) for k in range(6 * NUM_INSTANCES)]
    return [route(request, loads, 0.0) for request in asks]


@pytest.mark.parametrize("option", options_in("routing"))
def test_a_tie_shift_sends_equal_requests_elsewhere(option: str) -> None:
    plain, *shifted = [choices_when_all_are_alike(option, shift) for shift in (0, 1, 2)]
    assert shifted[0] != plain != shifted[1] != shifted[0]
    assert shifted[0][:NUM_INSTANCES] == plain[:NUM_INSTANCES]
    assert choices_when_all_are_alike(option, 1) == shifted[0]


@pytest.mark.parametrize("option", options_in("admission"))
def test_an_admission_policy_answers_the_same_again_and_after_pickling(option: str) -> None:
    plugin = job_with(f"admission={option}").admission
    requests = some_requests()
    whole = plugin.build()
    answers = [whole.admit(request, request.arrival_s) for request in requests]
    assert set(answers) <= {True, False}
    half = plugin.build()
    first = [half.admit(request, request.arrival_s) for request in requests[:100]]
    half = pickle.loads(pickle.dumps(half))
    assert first + [half.admit(r, r.arrival_s) for r in requests[100:]] == answers


@pytest.mark.parametrize("option", options_in("eviction"))
def test_an_eviction_policy_that_claims_release_order_has_growing_keys(option: str) -> None:
    policy = pickle.loads(pickle.dumps(job_with(f"eviction={option}").eviction.build()))
    keys = [policy.key(-1 - k % 3, k % 2, 1 + k % 5, k) for k in range(50)]
    assert all(isinstance(key, float) for key in keys)
    if policy.is_release_order:
        assert keys == sorted(keys)


@pytest.mark.parametrize("option", options_in("batching"))
def test_a_batch_policy_offers_only_waiting_requests(option: str) -> None:
    policy = pickle.loads(pickle.dumps(job_with(f"batching={option}").batching.build()))
    view = _Waiting(some_requests()[:20])
    for request in view.waiting.values():
        policy.on_arrival(view, request, 0.0)
    offered = []
    for request in policy.candidates(view, 1.0):
        assert request.request_id in view.waiting
        offered.append(request.request_id)
        view.running[request.request_id] = request
        request.phase = PREFILLING
        policy.on_admit(view, request, 1.0)
    assert offered, "nothing offered to an idle instance"
    assert len(set(offered)) == len(offered)


class _Waiting:
    """An idle instance with waiting requests."""

    instance_id = 0
    num_free_blocks = num_usable_blocks = 10_000

    def __init__(self, requests: list[Request]) -> None:
        self.waiting = {request.request_id: request for request in requests}
        self.running: dict[int, Request] = {}

    def cached_tokens(self, request: Request) -> int:
        return 0


@pytest.mark.parametrize(("group", "option"), POLICIES)
def test_a_run_under_pressure_keeps_the_invariants_and_repeats_itself(
    group: str, option: str
) -> None:
    composed = compose_config([*PRESSURE, f"{group}={option}"])
    first, again = (simulate_job(*composed) for _ in range(2))
    assert json_text(first.document) == json_text(again.document)
    m = first.metrics
    assert m["num_unfinished"] == 0
    assert m["num_preemptions"] or option in KEEPS_SMALL_BATCHES
    assert m["prefix_hit_ratio"]


@pytest.mark.parametrize("option", options_in("routing"))
def test_recording_decisions_changes_no_figure(option: str) -> None:
    chosen = compose_config([*PRESSURE, f"routing={option}"])
    noted = compose_config([*PRESSURE, f"routing={option}", "output.decisions=true"])
    plain, recorded = simulate_job(*chosen), simulate_job(*noted)
    assert json_text(plain.metrics) == json_text(recorded.metrics)
    assert plain.document["routing"] is None
    decisions = recorded.result.decisions
    assert decisions is not None
    served = recorded.result.requests.instance[decisions.request_id]
    assert decisions.instance.tolist() == served.tolist()
    _check_scores(decisions, option)


def _check_scores(decisions: DecisionRecords, option: str) -> None:
    """A router that shows scores takes the best one, unless it draws."""
    if decisions.smaller_is_better is None:
        assert option in ("random", "round_robin", "power_of_two")
        return
    sign = 1 if decisions.smaller_is_better else -1
    is_scored = ~np.isnan(decisions.score)
    assert is_scored.any()
    assert (sign * decisions.score <= sign * decisions.other_score)[
        is_scored & ~np.isnan(decisions.other_score)
    ].all()
    rows = np.flatnonzero(is_scored)
    assert (decisions.scores[rows, decisions.instance[rows]] == decisions.score[rows]).all()


@pytest.mark.parametrize(
    "overrides",
    [
        ("routing.view_delay_s=0.05",),
        ("routing.publish_period_s=0.1", "routing.assume_dispatches=true"),
        ("engine.macro_steps=false",),
        ("frontend.enabled=true",),
        ("engine=sglang", "engine.num_gpu_blocks=2400", "engine.init_new_token_ratio=0.01"),
        ("trace.replay_concurrency=30",),
    ],
)
def test_recording_decisions_changes_no_figure_of_any_view_or_engine(
    overrides: tuple[str, ...],
) -> None:
    base = [*PRESSURE, "routing=lmetric", *overrides]
    plain = simulate_job(*compose_config(base))
    recorded = simulate_job(*compose_config([*base, "output.decisions=true"]))
    assert json_text(plain.metrics) == json_text(recorded.metrics)


SGLANG = ("engine=sglang", "engine.num_gpu_blocks=2400", "engine.init_new_token_ratio=0.01")
"""The same under SGLang, where blocks are single tokens."""


@pytest.mark.parametrize(("group", "option"), POLICIES)
def test_under_sglang_macro_steps_change_no_figure(group: str, option: str) -> None:
    overrides = [*PRESSURE, *SGLANG, f"{group}={option}"]
    fast = simulate_job(*compose_config(overrides))
    plain = simulate_job(*compose_config([*overrides, "engine.macro_steps=false"]))
    figures = [dict(run.metrics) for run in (fast, plain)]
    for name in TIME_MEANS:
        means = [figure.pop(name) for figure in figures]
        assert means[0] == pytest.approx(means[1], rel=1e-9, abs=1e-12)
    assert json_text(figures[0]) == json_text(figures[1])
    assert figures[0]["num_unfinished"] == 0
    assert figures[0]["num_preemptions"] or option in KEEPS_SMALL_BATCHES
    assert figures[0]["prefix_hit_ratio"]


@pytest.mark.parametrize("is_async", ["true", "false"])
@pytest.mark.parametrize(("group", "option"), POLICIES)
def test_macro_steps_change_no_figure(group: str, option: str, is_async: str) -> None:
    overrides = [*PRESSURE, f"{group}={option}", f"engine.async_scheduling={is_async}"]
    fast = simulate_job(*compose_config(overrides))
    plain = simulate_job(*compose_config([*overrides, "engine.macro_steps=false"]))
    figures = [dict(run.metrics) for run in (fast, plain)]
    for name in TIME_MEANS:
        means = [figure.pop(name) for figure in figures]
        assert means[0] == pytest.approx(means[1], rel=1e-9, abs=1e-12)
    assert json_text(figures[0]) == json_text(figures[1])


@pytest.mark.parametrize("option", options_in("trace"))
def test_a_trace_is_the_same_for_the_same_seed(option: str) -> None:
    job = read_job(composed("trace", option))
    source = pickle.loads(pickle.dumps(job.trace.build()))
    first, again = source.load(3), job.trace.build().load(3)
    for name in ("arrival_s", "prompt_tokens", "output_tokens"):
        assert getattr(first, name).tobytes() == getattr(again, name).tobytes()
    assert first.num_requests >= 1
