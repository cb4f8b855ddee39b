"""Every key of the tiers of the prefix cache changes figures, and what cannot be is one line."""

import functools

import pytest

from experiments.composing import compose_config
from experiments.job import simulate_job
from experiments.results.json_text import json_text
from experiments.schema.job import read_job
from sim.errors import ConfigError

BASE = (
    "trace=sessions",
    "trace.num_requests=150",
    "trace.rate_per_s=60",
    "trace.think_time_s=0.5",
    "trace.user=20-300",
    "trace.output=1-60",
    "trace.num_system_prompts=3",
    "trace.system_prompt_tokens=300",
    "cluster.num_instances=3",
    "routing=round_robin",
    "engine.num_gpu_blocks=150",
    "hardware.fidelity=roofline",
)

HOST = "kv_tiers.host_bytes=3000000000"
STORE = f"{HOST}|kv_tiers.remote_bytes=50000000000|kv_tiers.host_bytes=400000000"

CHANGES = {
    "host_bytes": ("", HOST),
    "instances_per_host": (HOST, "kv_tiers.instances_per_host=3"),
    "write": ("kv_tiers.host_bytes=300000000", "kv_tiers.write=write_through"),
    "load": (HOST, "kv_tiers.load=layerwise"),
    "min_hit_tokens": (HOST, "kv_tiers.min_hit_tokens=16"),
    "write_backlog_bytes": (HOST, "kv_tiers.write_backlog_bytes=20000000"),
    "host_bytes_per_s": (HOST, "kv_tiers.host_bytes_per_s=1e9"),
    "host_latency_s": (HOST, "kv_tiers.host_latency_s=0.05"),
    "remote_bytes": (
        "kv_tiers.host_bytes=400000000",
        "kv_tiers.remote_bytes=50000000000",
    ),
    "remote_bytes_per_s": (STORE, "kv_tiers.remote_bytes_per_s=1e8"),
    "remote_latency_s": (STORE, "kv_tiers.remote_latency_s=0.05"),
}
"""Changed key -> overrides that it needs, and the one that changes it."""


@functools.cache
def figures(overrides: str) -> str:
    chosen = [one for one in overrides.split("|") if one]
    return json_text(simulate_job(*compose_config([*BASE, *chosen])).metrics)


@pytest.mark.parametrize("key", CHANGES)
def test_a_key_changes_the_figures(key: str) -> None:
    needed, change = CHANGES[key]
    assert figures(f"{needed}|{change}") != figures(needed)


def test_every_key_is_covered() -> None:
    assert set(compose_config(BASE)[0]["kv_tiers"]) == set(CHANGES)


def test_the_defaults_are_what_the_documentation_says() -> None:
    spelled_out = (
        "kv_tiers.instances_per_host=1|kv_tiers.write=write_back|kv_tiers.load=before_prefill|"
        "kv_tiers.min_hit_tokens=256|kv_tiers.write_backlog_bytes=4294967296|"
        "kv_tiers.host_latency_s=1e-5|kv_tiers.remote_latency_s=2e-5|"
        "kv_tiers.remote_bytes_per_s=36e9"
    )
    assert figures(f"{STORE}|{spelled_out}") == figures(STORE)


def test_the_same_configuration_gives_the_same_document() -> None:
    config = compose_config([*BASE, *STORE.split("|"), "check=true"])
    assert len({json_text(simulate_job(*config).document) for _ in range(2)}) == 1


@pytest.mark.parametrize("executor", ["eager", "cuda_graph"])
@pytest.mark.parametrize("load", ["before_prefill", "layerwise"])
def test_other_executors_have_tiers_too(executor: str, load: str) -> None:
    chosen = f"executor={executor}|check=true|{HOST}|kv_tiers.load={load}"
    assert figures(chosen) != figures(f"executor={executor}")


@pytest.mark.parametrize("key", [key for key in CHANGES if key != "host_bytes"])
def test_a_key_without_host_memory_is_refused(key: str) -> None:
    change = CHANGES[key][1]
    with pytest.raises(ConfigError, match=rf"kv_tiers.{key}=.* has no effect without kv_tiers.hos"):
        read_job(compose_config([*BASE, change])[0])


@pytest.mark.parametrize("key", ["remote_bytes_per_s", "remote_latency_s"])
def test_a_link_to_no_store_is_refused(key: str) -> None:
    change = CHANGES[key][1]
    with pytest.raises(ConfigError, match=rf"kv_tiers.{key}=.* without kv_tiers.remote_bytes"):
        read_job(compose_config([*BASE, HOST, change])[0])


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("kv_tiers.host_bytes=0", "kv_tiers.host_bytes=0: must be an integer >= 1"),
        ("kv_tiers.host_bytes=1000", "kv_tiers.host_bytes=1000: must hold at least one KV block"),
        ("kv_tiers.remote_bytes=7", "kv_tiers.remote_bytes=7: must hold at least one KV block"),
        ("kv_tiers.write=never", "kv_tiers.write='never': must be one of write_back, write_thr"),
        ("kv_tiers.load=late", "kv_tiers.load='late': must be one of before_prefill, layerwise"),
        ("kv_tiers.instances_per_host=0", "kv_tiers.instances_per_host=0: must be an integer"),
        ("kv_tiers.host_bytes_per_s=0", "host_bytes_per_s=0: must be a finite number >= 1 and <="),
        ("kv_tiers.host_bytes_per_s=1e-320", "host_bytes_per_s=1e-320: must be a finite number"),
        ("kv_tiers.host_latency_s=-1", "kv_tiers.host_latency_s=-1: must be a finite number >= 0"),
        ("kv_tiers.host_latency_s=1e300", r"host_latency_s=1e\+300: must be a finite number"),
        ("engine=sglang", "works with engine=vllm_v1 only, not with Sglang"),
        ("cluster=disaggregated", "not modelled with cluster=disaggregated"),
        ("engine.prefix_caching=false", "no effect when engine.prefix_caching=false"),
        ("executor=kv_rm|engine.num_gpu_blocks=9000", "executor=static_graph and kv_rm"),
        ("executor=static_graph|engine.num_gpu_blocks=9000", "when engine.prefix_caching=false"),
    ],
)
def test_a_value_that_cannot_be_is_one_line(override: str, line: str) -> None:
    base = [one for one in BASE if not (override.startswith("cluster=") and "cluster." in one)]
    with pytest.raises(ConfigError, match=line):
        simulate_job(*compose_config([*base, HOST, *override.split("|")]))
