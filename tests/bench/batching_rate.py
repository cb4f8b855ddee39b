"""Speed of batch policies with a long queue: `python -m tests.bench.batching_rate`.

Prompts of 5,000 shared and 20 private tokens, 50 output tokens, all at once on one A100 with
Llama-3-8B, so that the policy is asked in every step. Each rate is the requests per second of CPU
time of `simulate()` alone, scaled by SimPy's own speed as in `make bench`; the best of several runs
counts.
"""

import argparse
import gc
import time

from experiments.composing import compose_config
from experiments.deployment import build_deployment
from experiments.job import load_workload
from experiments.schema.job import read_job
from sim.simulation import simulate
from tests.bench.simpy_rate import REFERENCE_PER_S, timeouts_per_s

TARGET_PER_S = 2_000.0
"""Requests per second of Feather that decides in every step with 1,000 waiting."""

LOADS = {"5 groups": (5, 1_000), "100 groups": (100, 3_000)}
"""Name -> (groups, requests)."""

POLICIES = (
    "fcfs",
    "feather",
    "feather batching.reward=exclude_prefill",
    "feather batching.learner=q_learning",
    "feather batching.max_wait_s=10",
    "feather_heuristic",
    "hash_tree",
    "radix_cost",
    "oracle",
    "dynamic_batching",
)


def measure(load: str, policy: str, fidelity: str, repeat: int) -> bool:
    """Print the rate of a policy; returns whether the target is met."""
    num_groups, num_requests = LOADS[load]
    overrides = (
        "trace=prefix_groups",
        f"trace.num_groups={num_groups}",
        f"trace.num_requests={num_requests}",
        "trace.prefix_tokens=5000",
        "trace.suffix=20",
        "trace.output=50",
        "trace.flood=true",
        "cluster.num_instances=1",
        f"hardware.fidelity={fidelity}",
        *f"batching={policy}".split(),
    )
    job = read_job(compose_config(overrides)[0])
    workload = load_workload(job)
    best, num_steps = 0.0, 0
    for _ in range(repeat):
        simpy = timeouts_per_s()
        spec = build_deployment(job).spec
        gc.collect()
        start = time.process_time()
        result = simulate(workload, spec)
        rate = workload.num_requests / (time.process_time() - start)
        best = max(best, rate * REFERENCE_PER_S / simpy)
        num_steps = len(result.instances[0].step_end_s)
    verdict = "ok" if best >= TARGET_PER_S else "MISSED"
    print(
        f"{load:10s} {fidelity:13s} {policy:40s} {num_steps:6,d} steps, "
        f"{best:7,.0f} requests/s [{verdict}, {TARGET_PER_S:,.0f}]",
        flush=True,
    )
    return best >= TARGET_PER_S


def main() -> None:
    """Print the rates of all policies."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.batching_rate")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    for fidelity in ("roofline", "calibrated_l2"):
        for load in LOADS:
            for policy in POLICIES:
                measure(load, policy, fidelity, options.repeat)


if __name__ == "__main__":
    main()
