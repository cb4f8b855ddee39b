"""The load on which simulators are compared, and one timed run of it.

Poisson 4 requests/s per instance, prompts uniform 512-1024, outputs uniform 128-256, Llama-2-7B on
one A100, token budget 512, at most 128 sequences: the same for every simulator in `peers.py`.
"""

import time
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from hwmodels.attention.choice import KernelChoice
from hwmodels.calibrated import CalibratedCost
from hwmodels.device import DeviceSpec, load_profile
from hwmodels.links import peer_link
from hwmodels.memory import kv_capacity
from hwmodels.model_catalogue import load_model
from hwmodels.model_shape import ModelShape
from hwmodels.roofline import RooflineCost
from policies.batching.fcfs import FCFS
from policies.routing.least_requests import LeastRequests
from sim.cluster_spec import ClusterSpec
from sim.disaggregation.spec import DecodePool, Disaggregation, LinkSpec
from sim.interfaces import CostModel
from sim.prefix_tree import PrefixTree
from sim.rng import stream
from sim.simulation import simulate
from sim.vllm_v1 import VllmV1
from sim.workload import Workload

RATE_PER_INSTANCE_PER_S = 4.0
NUM_INSTANCES = 16
TOKEN_BUDGET = 512
MAX_SEQS = 128


@dataclass(frozen=True, slots=True)
class Case:
    """A variation of the reference load; with `num_prefill` so many instances prefill only."""

    name: str
    num_requests: int
    num_instances: int = NUM_INSTANCES
    num_groups: int = 0
    num_prefill: int = 0
    macro_steps: bool = True
    is_async: bool = False
    fidelity: Literal["roofline", "calibrated", "calibrated_l2"] = "roofline"


def reference_workload(case: Case, prefix_tokens: int = 512) -> Workload:
    """Requests of a case; with groups, every prompt begins with its group's prefix."""
    n = case.num_requests
    rate = RATE_PER_INSTANCE_PER_S * case.num_instances
    arrival_s = np.cumsum(stream(0, "bench.arrivals").exponential(1 / rate, n))
    prompts = stream(0, "bench.prompts").integers(512, 1025, n)
    outputs = stream(0, "bench.outputs").integers(128, 257, n)
    if not case.num_groups:
        return Workload.without_sharing(arrival_s, prompts, outputs)
    parents = np.full(case.num_groups, -1)
    return Workload(
        arrival_s=arrival_s,
        prompt_tokens=prompts,
        output_tokens=outputs,
        path_offsets=np.arange(n + 1),
        path_nodes=stream(0, "bench.groups").integers(0, case.num_groups, n),
        tree=PrefixTree.from_parents(parents, np.full(case.num_groups, prefix_tokens)),
    )


def reference_cluster(case: Case) -> ClusterSpec:
    """Cluster of a case, everything recorded."""
    device, shape = load_profile("a100_sxm_80gb"), load_model("llama2_7b")
    capacity = kv_capacity(
        device, shape, max_num_batched_tokens=TOKEN_BUDGET, max_num_seqs=MAX_SEQS
    )
    spec = ClusterSpec(
        num_instances=case.num_instances,
        num_gpu_blocks=capacity.num_blocks,
        rules=VllmV1(MAX_SEQS, TOKEN_BUDGET, case.is_async),
        cost=_cost(case, device, shape),
        batching=lambda _index: FCFS(),
        router=LeastRequests(),
        macro_steps=case.macro_steps,
    )
    return spec if not case.num_prefill else _with_roles(spec, case, device, shape)


def _with_roles(
    spec: ClusterSpec, case: Case, device: DeviceSpec, shape: ModelShape
) -> ClusterSpec:
    """The same instances, `case.num_prefill` of which hand over to the others by NVLink."""
    link = peer_link(device)
    decode = DecodePool(
        num_instances=case.num_instances - case.num_prefill,
        num_gpu_blocks=spec.num_gpu_blocks,
        rules=spec.rules,
        cost=spec.cost,
        batching=spec.batching,
        router=LeastRequests(),
    )
    parts = Disaggregation(
        decode=decode,
        kv_bytes_per_token=shape.kv_bytes_per_token,
        num_layers=shape.num_layers,
        peer_link=LinkSpec(latency_s=link.latency_s, bytes_per_s=link.bytes_per_s),
    )
    return replace(spec, num_instances=case.num_prefill, disaggregation=parts)


def _cost(case: Case, device: DeviceSpec, shape: ModelShape) -> CostModel:
    if case.fidelity == "roofline":
        return RooflineCost(device, shape)
    kernel = KernelChoice(mixed_batch="fused_varlen")
    return CalibratedCost(device, shape, kernel=kernel, uses_l2=case.fidelity == "calibrated_l2")


def requests_per_s(case: Case) -> float:
    """Simulated requests per second of wall time, `simulate()` alone."""
    workload, spec = reference_workload(case), reference_cluster(case)
    start = time.perf_counter()
    result = simulate(workload, spec)
    elapsed_s = time.perf_counter() - start
    assert result.num_finished == case.num_requests
    return case.num_requests / elapsed_s
