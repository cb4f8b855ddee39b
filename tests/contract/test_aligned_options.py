"""Every option of AlignedServe changes figures; what cannot be is one line."""

import functools

import pytest

from experiments.composing import compose_config
from experiments.deployment import build_deployment
from experiments.hydra_errors import explain
from experiments.job import simulate_job
from experiments.results.json_text import json_text
from experiments.schema.job import read_job
from sim.errors import ConfigError
from tests.contract.options import composed

BASE = (
    "cluster=aligned_serve",
    "cluster.num_prefill=1",
    "cluster.num_decode=1",
    "cluster.feeder.k_min=8",
    "model=opt_13b",
    "model.max_context_tokens=20000",
    "hardware=h100_sxm",
    "engine.num_gpu_blocks=1500",
    "cluster.prefill_buffer_bytes=4000000000",
    "trace=synthetic",
    "trace.num_requests=150",
    "trace.rate_per_s=60",
    "trace.prompt=20-4000",
    "trace.output=1-60",
)

CHANGES = {
    "k_min": "cluster.feeder.k_min=20",
    "batch_ratio": "cluster.feeder.batch_ratio=0.8",
    "leaf_tokens": "cluster.feeder.leaf_tokens=16384",
    "forms": "cluster.feeder.forms=at_once",
    "switch_below": "cluster.feeder.switch_below=1",
    "candidate_requests_ratio": "cluster.feeder.candidate_requests_ratio=0.6",
    "prefetch": "cluster.feeder.prefetch=false|cluster.prefill_buffer_bytes=null",
    "length_aware": "cluster.feeder.length_aware=false",
    "max_wait_s": "cluster.feeder.max_wait_s=0.2",
}
"""Option of the controller -> overrides that change it."""

ROOM = ("cluster.feeder.k_min=3",)
"""Intervals are used up before a batch is full."""

STORES = {
    "cluster.prefill_buffer_bytes": "cluster.prefill_buffer_bytes=2000000000",
    "cluster.host_pool_bytes": "cluster.host_pool_bytes=7000000000",
}


@functools.cache
def figures(*overrides: str) -> str:
    last = {item.partition("=")[0] for item in overrides}
    base = [item for item in BASE if item.partition("=")[0] not in last]
    return json_text(simulate_job(*compose_config([*base, *overrides])).metrics)


@pytest.mark.parametrize("key", CHANGES)
def test_an_option_changes_the_figures(key: str) -> None:
    assert figures(*CHANGES[key].split("|")) != figures()


def test_what_fills_a_batch_changes_the_figures() -> None:
    assert figures(*ROOM, "cluster.feeder.fills=widen") != figures(*ROOM)


@pytest.mark.parametrize("key", STORES)
def test_a_size_changes_the_figures(key: str) -> None:
    assert figures(STORES[key]) != figures()


def test_every_option_is_covered() -> None:
    feeder = composed("cluster", "aligned_serve")["cluster"]["feeder"]
    assert set(feeder) - {"_target_"} == set(CHANGES) | {"fills"}


def test_a_run_keeps_the_invariants_and_repeats_itself() -> None:
    assert figures("check=true") == figures()


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("routing@cluster.decode_routing=jsq", "cluster.decode_routing=JSQ has no effect"),
        ("cluster.num_mixed=1", "cluster.num_mixed=1: AlignedServe works with instances that"),
        ("cluster.transfer=layerwise", "cluster.transfer=layerwise has no effect"),
        (
            "cluster.host_pool_bytes=null",
            "cluster.host_pool_bytes: batching by length needs a pool",
        ),
        ("cluster.prefill_buffer_bytes=5", "cluster.prefill_buffer_bytes: too small"),
        ("cluster.feeder.k_min=0", "cluster.feeder.k_min=0: must be at least 1"),
        ("cluster.feeder.k_min=x", "cluster.feeder.k_min='x': must be an integer"),
        ("+cluster.feeder.kmin=3", "unknown key of cluster.feeder"),
        ("cluster.feeder.prefetch=false", "cluster.prefill_buffer_bytes has no effect with"),
    ],
)
def test_a_value_that_cannot_be_is_one_line(override: str, line: str) -> None:
    with pytest.raises(ConfigError, match=line) as caught:
        figures(override)
    assert "\n" not in str(caught.value)


def test_the_name_under_batching_tells_where_it_is() -> None:
    with pytest.raises(Exception) as caught:
        compose_config(["batching=aligned_serve"])
    line = explain(caught.value)
    assert line == ("batching=aligned_serve: is an option of cluster; write cluster=aligned_serve")


def test_the_context_of_a_model_can_be_overridden() -> None:
    run = simulate_job(*compose_config([*BASE, "model.max_context_tokens=2000"]))
    flags = {flag["flag"]: flag for flag in run.document["flags"]}
    assert flags["max_model_len_not_enforced"]["max_context_tokens"] == 2000
    assert "max_model_len_not_enforced" not in {
        flag["flag"] for flag in simulate_job(*compose_config(BASE)).document["flags"]
    }
    with pytest.raises(ConfigError, match=r"model.max_context_tokens=1: must be"):
        figures("model.max_context_tokens=1")


def test_the_buffer_has_room_for_a_batch_and_what_tops_it_up() -> None:
    chosen = ["cluster=aligned_serve", "model=opt_13b", "hardware=h100_sxm"]
    for ratio, share in ((0.2, 0.25), (0.4, 0.5), (0.8, 0.5)):  # at most half of the cache
        config = compose_config([*chosen, f"cluster.feeder.batch_ratio={ratio}"])[0]
        deployment = build_deployment(read_job(config))
        parts, capacity = deployment.spec.disaggregation, deployment.capacity
        assert parts is not None and capacity is not None
        block_bytes = 16 * parts.kv_bytes_per_token
        assert parts.prefill_buffer_bytes == pytest.approx(
            share * parts.decode.num_gpu_blocks * block_bytes, rel=1e-3
        )
        left = capacity.num_blocks - -(-parts.prefill_buffer_bytes // block_bytes)
        assert deployment.spec.num_gpu_blocks == left


def test_opt_30b_runs_on_two_gpus() -> None:
    chosen = [
        *("cluster=aligned_serve", "model=opt_30b", "hardware=h100_sxm"),
        *("cluster.tensor_parallel=2", "trace=synthetic", "trace.num_requests=20"),
    ]
    assert simulate_job(*compose_config(chosen)).metrics["num_finished"] == 20


def test_iterations_and_batches_are_told() -> None:
    metrics = simulate_job(*compose_config(BASE)).metrics
    for name in ("mixed_batches_ratio", "aligned_batches_ratio", "iteration_fast_ratio"):
        value = metrics[name]
        assert value is not None and 0 <= value <= 1
    peak, mean = metrics["host_pool_peak_bytes"], metrics["host_pool_mean_bytes"]
    assert peak is not None and mean is not None and 0 < mean < peak
    # The requests account for every decode, so there are bubbles; padding costs the most.
    split, padded = (metrics[f"iteration_bubble_{k}_s"] for k in ("split_kv", "padded"))
    assert split is not None and padded is not None and 0 <= split < padded
