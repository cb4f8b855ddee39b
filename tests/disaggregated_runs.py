"""Runs with separate prefill and decode instances for tests: one call, few defaults."""

from typing import Any

from policies.batching.fcfs import FCFS
from policies.routing.least_requests import LeastRequests
from sim.cluster_spec import ClusterSpec
from sim.disaggregation.direct import DirectFeeder
from sim.disaggregation.spec import DecodePool, Disaggregation, LinkSpec
from sim.records import SimulationResult
from sim.simulation import simulate
from sim.vllm_v1 import VllmV1
from sim.workload import Workload
from tests.engine_runs import ConstantCost, cluster_of


def disaggregated_of(**options: Any) -> ClusterSpec:
    """One checked prefill and one decode instance; every option can be overridden.

    A KV block holds 4 tokens and 4 bytes. The link moves 1 byte per second without latency.
    """
    seats, budget = options.pop("decode_seats", 8), options.pop("decode_budget", 64)
    decode: dict[str, Any] = {
        "num_instances": options.pop("num_decode", 1),
        "num_gpu_blocks": options.pop("decode_blocks", 100) + 1,
        "rules": VllmV1(seats, budget),
        "cost": options.pop("decode_cost", options.get("cost", ConstantCost())),
        "batching": options.pop("decode_batching", lambda _index: FCFS()),
        "router": options.pop("decode_router", LeastRequests()),
    }
    layerwise = options.pop("layerwise", False)
    parts: dict[str, Any] = {
        "decode": DecodePool(**decode),
        "kv_bytes_per_token": options.pop("kv_bytes_per_token", 1),
        "num_layers": options.pop("num_layers", 4),
        "peer_link": LinkSpec(
            latency_s=options.pop("latency_s", 0.0), bytes_per_s=options.pop("bytes_per_s", 1.0)
        ),
        "num_mixed": options.pop("num_mixed", 0),
        "feeder": options.pop("feeder", lambda: DirectFeeder(layerwise)),
        **options.pop("parts", {}),
    }
    options.setdefault("num_instances", options.pop("num_prefill", 1) + parts["num_mixed"])
    return cluster_of(disaggregation=Disaggregation(**parts), **options)


def run_disaggregated(
    workload: Workload, horizon_s: float | None = None, **options: Any
) -> SimulationResult:
    """Simulate `workload` on `disaggregated_of(**options)`."""
    return simulate(workload, disaggregated_of(**options), horizon_s=horizon_s)
