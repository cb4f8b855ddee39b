"""Every key of a disaggregated cluster changes figures, and what cannot be is one line."""

import functools

import pytest

from experiments.composing import compose_config
from experiments.job import simulate_job
from experiments.results.json_text import json_text
from experiments.schema.job import read_job
from experiments.sweep.replication import replicated
from sim.errors import ConfigError
from tests.contract.options import composed, options_in

BASE = (
    "cluster=disaggregated",
    "trace=synthetic",
    "trace.num_requests=60",
    "trace.rate_per_s=60",
    "trace.prompt=20-900",
    "trace.output=1-60",
    "hardware.fidelity=roofline",
    "routing=jsq",
)

STORES = "cluster.feeder={_target_: tests.contract.through_host.ThroughHost}|cluster.transfer=null"

CHANGES = {
    "num_prefill": "cluster.num_prefill=1",
    "num_decode": "cluster.num_decode=1",
    "num_mixed": "cluster.num_mixed=1",
    "tensor_parallel": "cluster.tensor_parallel=2",
    "link": "cluster.link=nic",
    "link_bytes_per_s": "cluster.link_bytes_per_s=1e9",
    "link_latency_s": "cluster.link_latency_s=0.1",
    "transfer": "cluster.transfer=layerwise",
    "decode_max_num_seqs": "cluster.decode_max_num_seqs=2",
    "decode_num_gpu_blocks": "cluster.decode_num_gpu_blocks=100",
    "decode_routing": "routing@cluster.decode_routing=random",
    "feeder": STORES + "|cluster.host_pool_bytes=10000000000",
}
"""Key -> overrides that change it."""

CHANGES_BESIDE = {
    # The budget of decode instances matters where they compute preempted requests again.
    "decode_max_num_batched_tokens": (
        "cluster.decode_num_gpu_blocks=100|cluster.decode_max_num_seqs=32",
        "cluster.decode_max_num_batched_tokens=32",
    ),
    "decode_batching": (
        "cluster.decode_max_num_seqs=2",
        "batching@cluster.decode_batching=shortest_prefill",
    ),
    "host_pool_bytes": (
        STORES + "|cluster.host_pool_bytes=10000000000",
        "cluster.host_pool_bytes=200000000",
    ),
    "prefill_buffer_bytes": (
        STORES + "|cluster.host_pool_bytes=10000000000|engine.num_gpu_blocks=200",
        "cluster.prefill_buffer_bytes=200000000",
    ),
}
"""Key -> overrides that it needs, and the one that changes it."""


@functools.cache
def figures(*overrides: str) -> str:
    return json_text(simulate_job(*compose_config([*BASE, *overrides])).metrics)


@pytest.mark.parametrize("key", CHANGES)
def test_a_key_changes_the_figures(key: str) -> None:
    assert figures(*CHANGES[key].split("|")) != figures()


@pytest.mark.parametrize("key", CHANGES_BESIDE)
def test_a_key_changes_the_figures_beside_another(key: str) -> None:
    needed, change = CHANGES_BESIDE[key]
    assert figures(*needed.split("|"), change) != figures(*needed.split("|"))


@pytest.mark.parametrize("option", [o for o in options_in("cluster") if o != "colocated"])
def test_every_key_is_covered(option: str) -> None:
    assert set(composed("cluster", option)["cluster"]) == set(CHANGES) | set(CHANGES_BESIDE)


def test_the_presets_differ() -> None:
    assert figures("cluster=splitwise") != figures("cluster=distserve")
    assert compose_config(["cluster=splitwise"])[1]["routing"] == "jsq"
    assert compose_config(["cluster=splitwise", "routing=lmetric"])[1]["routing"] == "lmetric"


def test_fastgen_fills_a_fixed_budget() -> None:
    config, _ = compose_config(["engine=fastgen"])
    engine = config["engine"]
    assert (engine["max_num_batched_tokens"], engine["max_num_seqs"]) == (768, 512)
    assert engine["prefix_caching"] is False


def test_the_same_configuration_gives_the_same_figures() -> None:
    config = compose_config([*BASE, "routing@cluster.decode_routing=random"])
    found = {json_text(simulate_job(*config).document) for _ in range(2)}
    assert len(found) == 1


def test_a_replication_draws_anew_on_the_decode_side_too() -> None:
    job = read_job(compose_config([*BASE, "routing@cluster.decode_routing=random"])[0])
    again = replicated(job, 1)
    assert job.roles is not None and again.roles is not None
    assert job.roles.decode_routing.options != again.roles.decode_routing.options


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("cluster.num_prefill=0", "cluster.num_prefill=0: must be an integer >= 1"),
        ("cluster.num_decode=0", "cluster.num_decode=0: must be an integer >= 1"),
        ("cluster.num_mixed=-1", "cluster.num_mixed=-1: must be an integer >= 0"),
        ("cluster.tensor_parallel=0", "cluster.tensor_parallel=0"),
        ("cluster.link=usb", "cluster.link='usb': must be one of nvlink, pcie, nic"),
        ("cluster.link_bytes_per_s=0", "cluster.link_bytes_per_s=0: must be a finite number >= 1"),
        ("cluster.link_latency_s=-1", "cluster.link_latency_s=-1: must be a finite number >= 0"),
        ("cluster.transfer=often", "cluster.transfer='often': must be one of after_prefill"),
        ("cluster.transfer=null", "cluster.transfer=null: must be after_prefill or layerwise"),
        ("cluster.decode_max_num_seqs=0", "cluster.decode_max_num_seqs=0"),
        ("cluster.decode_max_num_batched_tokens=0", "cluster.decode_max_num_batched_tokens=0"),
        ("cluster.decode_max_num_seqs=5000", r"else engine..\): engine.max_num_seqs=5000"),
        ("cluster.decode_num_gpu_blocks=1", "cluster.decode_num_gpu_blocks=1"),
        ("cluster.decode_routing=1", "cluster.decode_routing=1: must be a section"),
        ("cluster.decode_batching=1", "cluster.decode_batching=1: must be a section"),
        ("cluster.feeder={_target_: sim.units.GIB}", "cluster.feeder._target_=sim.units.GIB"),
        ("cluster.host_pool_bytes=5", "cluster.host_pool_bytes has no effect with cluster.feeder="),
        ("cluster.prefill_buffer_bytes=5", "cluster.prefill_buffer_bytes has no effect"),
        ("routing@cluster.decode_routing=lmetric", "router LMetric matches prefixes"),
        (
            "routing@cluster.decode_routing=vllm_dp",
            "cluster.decode_routing.publish_period_s=0.1: only the router for arrivals has it",
        ),
        ("+cluster.decode_routing.tie_shift=1", "tie_shift=1: only the router for arrivals"),
        ("engine=sglang", "works with engine=vllm_v1 only, not with Sglang"),
        ("engine.async_scheduling=true", "engine.async_scheduling=true is not modelled"),
        ("frontend.enabled=true", "frontend.enabled=true is not modelled"),
        ("executor=kv_rm", "executor=static_graph and kv_rm"),
    ],
)
def test_a_value_that_cannot_be_is_one_line(override: str, line: str) -> None:
    with pytest.raises(ConfigError, match=line.replace("(", r"\(")):
        simulate_job(*compose_config([*BASE, override]))


def test_the_plain_hand_over_as_a_plugin_has_no_stores() -> None:
    chosen = ("cluster.feeder={_target_: sim.disaggregation.direct.DirectFeeder}",)
    assert figures(*chosen, "cluster.transfer=null") == figures()
    with pytest.raises(ConfigError, match=r"no effect with cluster.feeder=DirectFeeder"):
        figures(*chosen, "cluster.transfer=null", "cluster.host_pool_bytes=5")
    with pytest.raises(ConfigError, match=r"cluster.transfer=after_prefill has no effect"):
        figures(*chosen)


def test_a_buffer_leaves_room_for_kv() -> None:
    overrides = [*STORES.split("|"), "engine.num_gpu_blocks=100"]
    with pytest.raises(ConfigError, match=r"cluster.prefill_buffer_bytes=500000000: must leave"):
        figures(*overrides, "cluster.prefill_buffer_bytes=500000000")
