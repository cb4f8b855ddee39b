"""Tiers behind the prefix cache on the public traces: every invariant, under every batch policy."""

import pytest

from experiments.composing import compose_config
from experiments.job import simulate_job
from tests.contract.options import options_in
from tests.data_path import real_data_file

pytestmark = pytest.mark.real_data

TIERS = (
    "kv_tiers.host_bytes=30000000000",
    "kv_tiers.instances_per_host=2",
    "kv_tiers.remote_bytes=200000000000",
)

BATCHING = [name for name in options_in("batching") if name != "aligned_serve"]


def overrides_for(trace: str) -> tuple[str, ...]:
    path = real_data_file(f"traces/mooncake/{trace}_trace.jsonl")
    return (
        "trace=mooncake",
        f"trace.path={path}",
        "trace.limit=400",
        "trace.max_output_tokens=40",
        "hardware.fidelity=roofline",
        "routing=round_robin",
        "cluster.num_instances=4",
        "engine.num_gpu_blocks=9000",
        "check=true",
    )


@pytest.mark.parametrize("option", BATCHING)
def test_all_conversations_are_served_from_tiers_under_every_policy(option: str) -> None:
    base = (*overrides_for("conversation"), f"batching={option}", *TIERS)
    macro, plain = (
        simulate_job(*compose_config([*base, f"engine.macro_steps={value}"])).metrics
        for value in ("true", "false")
    )
    assert macro["num_finished"] == 400
    assert macro["makespan_s"] == plain["makespan_s"]
    assert macro["ttft_p99_s"] == plain["ttft_p99_s"]


@pytest.mark.parametrize("write", ["write_back", "write_through"])
@pytest.mark.parametrize("trace", ["conversation", "synthetic"])
def test_prompts_found_in_the_host_of_all_instances_bring_the_first_token_earlier(
    trace: str, write: str
) -> None:
    base = overrides_for(trace)
    shared = ("kv_tiers.host_bytes=500000000000", "kv_tiers.instances_per_host=4")
    without = simulate_job(*compose_config(base)).metrics
    found = simulate_job(*compose_config([*base, *shared, f"kv_tiers.write={write}"])).metrics
    before_s, after_s = without["ttft_mean_s"], found["ttft_mean_s"]
    assert before_s is not None and after_s is not None
    assert after_s < 0.9 * before_s
