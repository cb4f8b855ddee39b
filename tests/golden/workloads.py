"""Three tiny jobs whose figures are kept exactly.

They are priced by the roofline, whose sums and products come out alike on every machine; powers and
exponentials may differ in the last digit from one processor to another.
"""

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
            "hardware.fidelity=roofline",
            "cluster.num_instances=1",
            "engine.num_gpu_blocks=160",
            "engine.max_num_batched_tokens=512",
            "check=true",
        ]
    if name == "sglang":
        return [
            "trace=prefix_groups",
            "trace.num_requests=60",
            "trace.rate_per_s=30",
            "trace.num_groups=4",
            "trace.prefix_tokens=400",
            "trace.skew=1",
            "trace.suffix=20-200",
            "trace.output=1-150",
            "hardware.fidelity=roofline",
            "cluster.num_instances=2",
            "engine=sglang",
            "engine.num_gpu_blocks=1900",
            "engine.schedule_conservativeness=0.1",
            "engine.max_num_batched_tokens=256",
            "routing=least_requests",
            "seed=7",
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
        "hardware.fidelity=roofline",
        "cluster.num_instances=2",
        "engine.num_gpu_blocks=120",
        "engine.async_scheduling=true",
        "routing=vllm_dp",
        "seed=7",
        "check=true",
    ]
