"""Scheduler CPU time as a share of GPU time, by policy, model size and prompt length.

    python -m tests.bench.scheduler_share [POLICY,...] [KEY=VALUE ...]

Users who send a request as soon as their last one has ended keep as many requests waiting as run,
few enough for LPM to sort them. Prompts are of 5 groups with a long common prefix, which is cached
after the first request of each: the longest matches there can be. Overrides (for example
engine=vllm_v1, engine.async_scheduling=true, hardware=a100_sxm_80gb) apply to all runs.
"""

import sys
from collections.abc import Sequence

from experiments.composing import compose_config
from experiments.job import simulate_job

POLICIES = ("fcfs", "lpm", "dfs_weight", "shortest_prefill", "hash_tree", "feather")
MODELS = ("qwen2_5_0_5b", "llama3_1_8b")
PREFIXES = (1_000, 5_000, 10_000, 20_000)
SEATS = 100
USERS = 2 * SEATS

LOAD = (
    "trace=prefix_groups",
    "trace.num_groups=5",
    "trace.suffix=20",
    "trace.output=1-99",
    "trace.num_requests=1000",
    f"trace.replay_concurrency={USERS}",
    "cluster.num_instances=1",
    "hardware=rtx6000_ada",
    "engine=sglang",
    f"engine.max_num_seqs={SEATS}",
    "scheduler.enabled=true",
)
FACTORS = (1, 20)
"""Python, and compiled code by assumption."""


def share_of(policy: str, model: str, prefix: int, factor: int, more: Sequence[str]) -> float:
    """CPU time of the scheduler / time of the steps on the GPU."""
    overrides = (
        *LOAD,
        f"batching={policy}",
        f"model={model}",
        f"trace.prefix_tokens={prefix}",
        f"scheduler.language_factor={factor}",
        *more,
    )
    metrics = simulate_job(*compose_config(overrides)).metrics
    share = metrics["scheduler_cpu_ratio"]
    assert share is not None
    return share


def main(arguments: Sequence[str]) -> None:
    """Print the table: per cell Python / compiled."""
    policies: tuple[str, ...] = POLICIES
    more = list(arguments)
    if more and "=" not in more[0]:
        policies = tuple(more.pop(0).split(","))
    for model in MODELS:
        print(f"\n{model}: scheduler time / GPU time in %, Python (compiled)")
        print(f"{'policy':<18}" + "".join(f"{prefix:>18,}" for prefix in PREFIXES))
        for policy in policies:
            cells = []
            for prefix in PREFIXES:
                shares = [100 * share_of(policy, model, prefix, f, more) for f in FACTORS]
                cells.append(f"{shares[0]:.3g} ({shares[1]:.2g})")
            print(f"{policy:<18}" + "".join(f"{cell:>18}" for cell in cells), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
