"""What many different jobs give: `python -m tests.compiled.digests FILE` writes a digest of each.

Every engine, cluster, executor and router that has rules of its own is in one of them, under enough
pressure to preempt and evict, so that the compiled form can be held against plain Python.
"""

import hashlib
import json
import sys
import tempfile
from pathlib import Path

from experiments.composing import compose_config
from experiments.help_text import options_of
from experiments.job import run_job
from sim.compiled import form_in_use

GROUPED = (
    "trace=prefix_groups",
    "trace.num_requests=150",
    "trace.rate_per_s=40",
    "trace.num_groups=5",
    "trace.prefix_tokens=400",
    "trace.suffix=20-300",
    "trace.output=1-200",
    "engine.num_gpu_blocks=330",
    "engine.max_num_batched_tokens=512",
    "engine.max_num_seqs=32",
)
SHARED = (*GROUPED, "cluster.num_instances=2")
TREE = (
    "trace=prefix_tree",
    "trace.num_requests=120",
    "trace.rate_per_s=30",
    "cluster.num_instances=3",
    "engine.num_gpu_blocks=900",
)
PLAIN = (
    "trace=synthetic",
    "trace.num_requests=200",
    "trace.rate_per_s=30",
    "cluster.num_instances=2",
)

JOBS = {
    "roofline": (*SHARED, "hardware.fidelity=roofline"),
    "calibrated": (*SHARED, "hardware.fidelity=calibrated"),
    "calibrated_l2": SHARED,
    "small cache on one instance": (
        *SHARED,
        "cluster.num_instances=1",
        "engine.num_gpu_blocks=200",
    ),
    "no sharing": PLAIN,
    "long prompts in chunks": (*PLAIN, "trace.prompt=2000-6000", "trace.rate_per_s=4"),
    "prefix tree": TREE,
    "asynchronous": (*SHARED, "engine.async_scheduling=true"),
    "no macro steps": (*SHARED, "engine.macro_steps=false"),
    "no prefix cache": (*SHARED, "engine.prefix_caching=false"),
    "checked": (*SHARED, "check=true"),
    "sglang": (*SHARED, "engine=sglang", "engine.num_gpu_blocks=3500"),
    "lmetric, many instances": (*TREE, "routing=lmetric", "cluster.num_instances=70"),
    "published view": (*SHARED, "routing=vllm_dp", "routing.publish_period_s=0.1"),
    "separate, per head": (*SHARED, "kernel.family=per_head", "kernel.mixed_batch=separate"),
    "two GPUs": (*SHARED, "cluster.tensor_parallel=2"),
    "front end": (*SHARED, "frontend.enabled=true"),
    "disaggregated": (*GROUPED, "cluster=disaggregated"),
    "splitwise": (*GROUPED, "cluster=splitwise"),
    "aligned": (*GROUPED, "cluster=aligned_serve"),
    "kv tiers": (*SHARED, "kv_tiers.host_bytes=1000000000"),
    "closed loop": (*PLAIN, "trace.replay_concurrency=20"),
}

GROUPS = {"batching": SHARED, "routing": TREE, "kernel": SHARED, "executor": PLAIN}
"""Groups of options, each of which is run on a load."""

OWN = {"executor=static_graph": ("engine.prefix_caching=false",)}
"""What an option needs beside itself."""


def jobs() -> dict[str, tuple[str, ...]]:
    """Command lines by name."""
    found = dict(JOBS)
    for group, load in GROUPS.items():
        for name in options_of(group):
            option = f"{group}={name}"
            found[option] = (*load, option, *OWN.get(option, ()))
    return found


def digests() -> dict[str, dict[str, str]]:
    """Of every job, the digest of each file it writes but the one that says when it ran."""
    found = {}
    with tempfile.TemporaryDirectory() as name:
        for number, (job, overrides) in enumerate(jobs().items()):
            directory = Path(name) / str(number)
            line = [*overrides, "seed=3", "output.steps=true"]
            run_job(*compose_config(line), line, directory)
            found[job] = {path.name: _digest(path) for path in _files(directory)}
    return found


def _files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.name != "run.json")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps({"form": form_in_use(), "digests": digests()}))
