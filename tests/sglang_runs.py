"""Runs of the SGLang engine for tests, and random limits for it."""

from typing import Any

import numpy as np

from sim.cluster_spec import ClusterSpec
from sim.records import SimulationResult
from sim.sglang import Sglang
from sim.simulation import simulate
from sim.workload import Workload
from tests.engine_runs import cluster_of
from tests.twin_sglang.scheduler import Limits


def sglang_cluster(**options: Any) -> ClusterSpec:
    """One checked FCFS instance under SGLang's rules; every option can be overridden.

    Options of the engine are given in `rules`, a dict.
    """
    sizes: dict[str, Any] = {
        "max_num_seqs": options.pop("seats", 8),
        "max_num_batched_tokens": options.pop("chunk", 64),
    }
    rules = Sglang(**sizes, **options.pop("rules", {}))
    num_tokens = options.pop("num_tokens", 400)
    options = {"block_tokens": 1, **options}
    return cluster_of(rules=rules, usable_blocks=num_tokens, **options)


def run_sglang(
    workload: Workload, horizon_s: float | None = None, **options: Any
) -> SimulationResult:
    """Simulate `workload` on `sglang_cluster(**options)`."""
    return simulate(workload, sglang_cluster(**options), horizon_s=horizon_s)


def options_of(limits: Limits) -> dict[str, Any]:
    """The same limits as options of `run_sglang`."""
    return {
        "num_tokens": limits.num_tokens,
        "seats": limits.max_running_requests,
        "chunk": limits.chunked_prefill_size,
        "prefix_caching": limits.radix_cache,
        "rules": {
            "max_prefill_tokens": limits.max_prefill_tokens,
            "init_new_token_ratio": limits.start_ratio,
            "min_new_token_ratio_factor": limits.min_ratio / limits.start_ratio,
            "new_token_ratio_decay_steps": limits.decay_steps,
            "retract_decode_steps": limits.retract_decode_steps,
            "clip_max_new_tokens": limits.clip,
        },
    }


def random_limits(seed: int, workload: Workload) -> Limits:
    """Limits under which every request can run, often only just."""
    rng = np.random.default_rng([seed, 5])
    longest = int((workload.prompt_tokens + workload.output_tokens).max())
    start = float(rng.choice([0.7, 0.1, 0.01, 0.01]))
    return Limits(
        num_tokens=longest + int(rng.choice([-1, 0, 40, 100, 200, 400, 5000])),
        max_running_requests=int(rng.choice([1, 2, 8, 64, 64])),
        chunked_prefill_size=int(rng.choice([16, 64, 256, 8192])),
        max_prefill_tokens=int(rng.choice([40, 200, 16384])),
        start_ratio=start,
        min_ratio=start * float(rng.choice([0.14, 1.0])),
        decay_steps=int(rng.choice([600, 30])),
        retract_decode_steps=int(rng.choice([20, 1])),
        clip=int(rng.choice([4096, 10])),
        radix_cache=bool(rng.random() < 0.8),
    )
