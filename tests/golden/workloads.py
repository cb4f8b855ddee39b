"""Two tiny workloads whose figures are kept exactly."""

from pathlib import Path

from tests.conftest import TINY_MOONCAKE


def overrides(name: str, directory: Path) -> list[str]:
    """Command line of a golden job; writes the trace it needs to `directory`."""
    if name == "mooncake":
        path = directory / "trace.jsonl"
        path.write_text(TINY_MOONCAKE)
        return [
            "trace=mooncake",
            f"trace.path={path}",
            "cluster.num_instances=1",
            "engine.num_gpu_blocks=160",
            "engine.max_num_batched_tokens=512",
            "check=true",
        ]
    return [
        "trace=prefix_groups",
        "trace.num_requests=60",
        "trace.rate_per_s=30",
        "trace.num_groups=4",
        "trace.prefix_tokens=400",
        "trace.skew=1",
        "trace.suffix=20-200",
        "trace.output=1-150",
        "cluster.num_instances=2",
        "engine.num_gpu_blocks=120",
        "engine.async_scheduling=true",
        "routing=vllm_dp",
        "seed=7",
        "check=true",
    ]
