"""Small clusters for policy tests: views with given counters, and an engine with unit steps."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from policies.batching.fcfs import FCFS
from sim.cluster_spec import ClusterSpec
from sim.interfaces import Router
from sim.loads import Loads
from sim.records import SimulationResult
from sim.request import Request
from sim.simulation import simulate
from sim.vllm_v1 import VllmV1
from sim.workload import Workload
from tests.engine_runs import ConstantCost


def request(request_id: int = 0, prompt_tokens: int = 1) -> Request:
    return Request(None, request_id, 0.0, prompt_tokens, 1)


def live_view(
    waiting: Sequence[int], running: Sequence[int], queued: Sequence[int] | None = None
) -> Loads:
    loads = Loads(len(waiting))
    loads.num_waiting = list(waiting)
    loads.num_running = list(running)
    loads.num_requests = [w + r for w, r in zip(waiting, running, strict=True)]
    if queued is not None:
        loads.prefill_tokens = list(queued)
    return loads


def choices(router: Router, view: Any, num_requests: int, first_id: int = 0) -> list[int]:
    """Decisions for requests in a row while the view stands still."""
    ids = range(first_id, first_id + num_requests)
    return [router.route(request(i), view, 0.0) for i in ids]


def play(
    router: Router,
    arrivals: Sequence[float],
    prompts: int | Sequence[int] = 1,
    outputs: int | Sequence[int] = 1,
    num_instances: int = 2,
    max_num_seqs: int = 1,
    num_gpu_blocks: int = 1_000_000,
    **options: Any,
) -> SimulationResult:
    """Simulate requests on instances with one-second steps."""
    n = len(arrivals)
    workload = Workload.without_sharing(
        np.array(arrivals, dtype=np.float64),
        np.broadcast_to(np.array(prompts, dtype=np.int64), n),
        np.broadcast_to(np.array(outputs, dtype=np.int64), n),
    )
    spec = ClusterSpec(
        num_instances=num_instances,
        num_gpu_blocks=num_gpu_blocks,
        rules=VllmV1(max_num_seqs, 1_000_000),
        cost=ConstantCost(),
        batching=lambda _: FCFS(),
        router=router,
        **options,
    )
    return simulate(workload, spec)


def instances_of(result: SimulationResult) -> list[int]:
    served: list[int] = result.requests.instance.tolist()
    return served
