"""Speed of routers that match prefixes: `python -m tests.bench.routing_rate`.

Copies of Mooncake's conversations that begin one second apart, Llama-3-8B on A100s, the roofline,
token budget 2,048. Each rate is the requests per second of CPU time of `simulate()` alone, scaled
by SimPy's own speed just before and after as in `make bench`; the median of several runs counts.
"""

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from hwmodels.device import load_profile
from hwmodels.memory import kv_capacity
from hwmodels.model_catalogue import load_model
from hwmodels.roofline import RooflineCost
from policies.batching.fcfs import FCFS
from policies.routing.least_requests import LeastRequests
from policies.routing.lmetric import LMetric
from sim.cluster_spec import ClusterSpec
from sim.interfaces import Router
from sim.simulation import simulate
from sim.vllm_v1 import VllmV1
from sim.workload import Workload
from tests.bench.simpy_rate import REFERENCE_PER_S, timeouts_per_s
from tests.data_path import real_data_dir
from traces.prefix_compress import compress
from traces.readers.mooncake import MooncakeTrace
from traces.transforms.repeating import repeat_rows

TOKEN_BUDGET = 2048
MAX_SEQS = 256
COPIES = 8
COPIES_APART_S = 1.0
TRACE = real_data_dir() / "traces" / "mooncake" / "conversation_trace.jsonl"

TARGETS_PER_S = {16: 20_000.0, 256: 8_000.0}
"""Requests per second under LMETRIC by number of instances, at SimPy's reference speed."""


@dataclass(frozen=True, slots=True)
class Case:
    """A cluster and its load."""

    name: str
    num_instances: int
    num_copies: int
    router: Callable[[], Router]
    target_per_s: float | None = None


def conversations(num_copies: int) -> Workload:
    """So many copies at once; they share what all prompts begin with, and nothing else."""
    table = MooncakeTrace(TRACE).load(0)
    n = table.num_requests
    row, copy = np.tile(np.arange(n), num_copies), np.repeat(np.arange(num_copies), n)
    arrival_s = table.arrival_s[row] + COPIES_APART_S * copy
    many = replace(repeat_rows(table, row, part=copy, copy=copy), arrival_s=arrival_s)
    return compress(many.take(np.lexsort((copy, row, arrival_s))))


def cluster(case: Case) -> ClusterSpec:
    """The cluster of a case."""
    device, shape = load_profile("a100_sxm_80gb"), load_model("llama3_8b")
    capacity = kv_capacity(
        device, shape, max_num_batched_tokens=TOKEN_BUDGET, max_num_seqs=MAX_SEQS
    )
    return ClusterSpec(
        num_instances=case.num_instances,
        num_gpu_blocks=capacity.num_blocks,
        rules=VllmV1(MAX_SEQS, TOKEN_BUDGET),
        cost=RooflineCost(device, shape),
        batching=lambda _index: FCFS(),
        router=case.router(),
    )


def simpy_per_cpu_s(count: int = 200_000) -> float:
    """SimPy's timeouts per second of CPU time."""
    start = time.process_time()
    timeouts_per_s(count)
    return count / (time.process_time() - start)


def measure(case: Case, workload: Workload, repeat: int) -> bool:
    """Print the rates of a case; returns whether its target is met."""
    scaled, rates, hits = [], [], 0.0
    for _ in range(repeat):
        before = simpy_per_cpu_s()
        spec = cluster(case)
        gc.collect()
        start = time.process_time()
        result = simulate(workload, spec)
        rate = workload.num_requests / (time.process_time() - start)
        simpy = (before + simpy_per_cpu_s()) / 2
        rates.append(rate)
        scaled.append(rate * REFERENCE_PER_S / simpy)
        requests = result.requests
        hits = float(requests.cached_tokens.clip(0).sum() / workload.prompt_tokens.sum())
    median, target = statistics.median(scaled), case.target_per_s
    verdict = (
        "" if target is None else f" [{'ok' if median >= target else 'MISSED'}, {target:,.0f}]"
    )
    print(
        f"{case.name:16s} {case.num_instances:4d} instances, {workload.num_requests:8,d} requests: "
        f"best {max(rates):7,.0f} per CPU second; at 1.3 M/s median {median:7,.0f}{verdict}, "
        f"prefix hit ratio {hits:.3f}",
        flush=True,
    )
    return target is None or median >= target


def measure_targets(repeat: int) -> list[bool]:
    """Print the rates that have targets; returns which are met. Nothing without the trace."""
    if not TRACE.is_file():
        print(f"LMETRIC not measured: {TRACE} is not here (set FLOCKSIM_DATA)")
        return []
    workload = conversations(COPIES)
    return [
        measure(Case("lmetric", size, COPIES, LMetric, target), workload, repeat)
        for size, target in TARGETS_PER_S.items()
    ]


def main() -> None:
    """Print the rates of LMETRIC, and of a router that matches nothing beside it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.routing_rate", description=__doc__)
    parser.add_argument("--instances", type=int, nargs="+", default=[16, 256])
    parser.add_argument("--copies", type=int, default=COPIES)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    workload = conversations(options.copies)
    for num_instances in options.instances:
        target = TARGETS_PER_S.get(num_instances)
        for case in (
            Case("least_requests", num_instances, options.copies, LeastRequests),
            Case("lmetric", num_instances, options.copies, LMetric, target),
        ):
            measure(case, workload, options.repeat)


if __name__ == "__main__":
    main()
