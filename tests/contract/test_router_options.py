"""Every option of every router changes the figures of a run, or is refused if nothing reads it."""

import functools

import pytest

from experiments.composing import compose_config
from experiments.job import simulate_job
from experiments.results.json_text import json_text
from experiments.schema.job import read_job
from sim.errors import ConfigError
from tests.contract.options import composed, options_in

BASE = (
    "trace=sessions",
    "trace.num_requests=120",
    "trace.rate_per_s=100",
    "trace.think_time_s=0.5",
    "trace.user=20-200",
    "trace.output=1-120",
    "trace.num_system_prompts=3",
    "trace.system_prompt_tokens=300",
    "cluster.num_instances=3",
    "engine.num_gpu_blocks=200",
)

BURSTS = (
    "cluster.num_instances=8",
    "trace.num_system_prompts=2",
    "trace.system_prompt_tokens=3000",
    "trace.rate_per_s=20",
    "engine.num_gpu_blocks=1000",
    "routing.hotspot=sliding",
)
"""Few instances hold a prompt that many requests begin with."""

CHANGES: dict[str, dict[str, tuple[str, ...]]] = {
    "vllm_dp": {
        "num_clients": ("routing.num_clients=3",),
        "publish_period_s": ("routing.publish_period_s=0.5",),
    },
    "power_of_two": {"seed": ("routing.seed=1",)},
    "random": {"seed": ("routing.seed=1",)},
    "most_hit": {"max_queued_tokens": ("routing.max_queued_tokens=100",)},
    "linear": {
        "hit_weight": ("routing.hit_weight=2",),
        "batch_weight": ("routing.batch_weight=2",),
        "token_weight": ("routing.token_weight=2",),
    },
    "lmetric": {
        "prefill": ("routing.prefill=miss_ratio",),
        "load": ("routing.load=tokens",),
        "plus_one": ("routing.plus_one=false",),
    },
    "dynamo": {
        "formula": ("routing.formula=ratio",),
        "temperature": ("routing.temperature=1",),
        "overlap_score_weight": ("routing.overlap_score_weight=20",),
        "prefix_index": ("routing.prefix_index=assumed",),
        "seed": ("routing.seed=1",),
    },
    "llm_d": {
        "kv_weight": ("routing.kv_weight=20",),
        "prefix_weight": ("routing.prefix_weight=20",),
        "token_load_weight": ("routing.token_load_weight=2000",),
        "active_request_weight": ("routing.active_request_weight=20",),
        "running_weight": ("routing.running_weight=20",),
        "prefix_index": ("routing.prefix_index=exact",),
        "lru_blocks": ("routing.lru_blocks=5",),
        "seed": ("routing.seed=1",),
    },
    "aibrix": {
        "imbalance_requests": ("routing.imbalance_requests=1",),
        "std_factor": ("routing.std_factor=0",),
        "prefix_index": ("routing.prefix_index=exact",),
    },
    "preble": {
        "match_share": ("routing.match_share=0.9",),
        "window_s": ("routing.window_s=0.1",),
    },
    "sglang_router": {
        "cache_threshold": ("routing.cache_threshold=0.9",),
        "max_tree_size": ("routing.max_tree_size=2000", "routing.eviction_interval_s=0.1"),
    },
    "mooncake_ttft": {
        "token_s": ("routing.token_s=1",),
        "pair_s": ("routing.pair_s=1",),
        "context_s": ("routing.context_s=1",),
        "token_budget": ("routing.token_budget=20",),
    },
    "polyserve": {
        "ttft_s": ("routing.ttft_s=0.02",),
        "tpot_s": ("routing.tpot_s=0.009",),
        "base_s": ("routing.base_s=1",),
        "token_s": ("routing.token_s=1",),
        "pair_s": ("routing.pair_s=1",),
        "context_s": ("routing.context_s=1e-5",),
        "token_budget": ("routing.token_budget=20",),
    },
    "smetric": {
        "ttft_scale": ("routing.ttft_scale=0.001",),
        "base_s": ("routing.base_s=1",),
        "token_s": ("routing.token_s=0.1",),
        "pair_s": ("routing.pair_s=1",),
        "context_s": ("routing.context_s=1",),
    },
}
"""Router -> changed key -> overrides that change it."""

CHANGES_BESIDE: dict[str, dict[str, tuple[tuple[str, ...], str]]] = {
    "lmetric": {
        "hotspot": (BURSTS, "routing.hotspot=off"),
        "class_tokens": (BURSTS, "routing.class_tokens=3010"),
        "window_s": (BURSTS, "routing.window_s=0.05"),
    },
    "linear": {
        "seed": (("routing.hit_weight=0", "routing.token_weight=0"), "routing.seed=1"),
    },
    "llm_d": {
        "queue_weight": (("engine.max_num_seqs=4",), "routing.queue_weight=200"),
        "load_aware_weight": (("engine.max_num_seqs=4",), "routing.load_aware_weight=200"),
    },
    "mooncake_ttft": {"base_s": (("routing.token_budget=20",), "routing.base_s=0")},
    "smetric": {
        "token_budget": (("routing.base_s=0.1",), "routing.token_budget=20"),
        "hit_share": (("trace.steady=false", "trace.turns=6"), "routing.hit_share=100"),
    },
    "dynamo": {
        "prefill_load_scale": (("routing.formula=credits",), "routing.prefill_load_scale=20"),
        "device_credit": (("routing.formula=credits",), "routing.device_credit=0"),
        "block_tokens": (("routing.formula=lmetric",), "routing.block_tokens=1000"),
        "ttl_s": (("routing.prefix_index=assumed",), "routing.ttl_s=0.01"),
        "max_tree_blocks": (("routing.prefix_index=assumed",), "routing.max_tree_blocks=20"),
    },
    "preble": {
        "imbalance_ratio": (
            ("trace.num_requests=400", "routing.imbalance_ratio=100"),
            "routing.imbalance_ratio=1",
        ),
    },
    "sglang_router": {
        "balance_abs_threshold": (
            ("routing.cache_threshold=0",),
            "routing.balance_abs_threshold=0",
        ),
        "balance_rel_threshold": (
            ("routing.cache_threshold=0", "routing.balance_abs_threshold=0"),
            "routing.balance_rel_threshold=100",
        ),
        "eviction_interval_s": (
            ("routing.max_tree_size=2000", "routing.eviction_interval_s=0.1"),
            "routing.eviction_interval_s=100",
        ),
    },
    "polyserve": {"seed": (("routing.ttft_s=1e-6",), "routing.seed=1")},
}
"""Router -> changed key -> the overrides that it needs, and the one that changes it."""

SINGLE = [(router, key) for router, keys in CHANGES.items() for key in keys]
BESIDE = [(router, key) for router, keys in CHANGES_BESIDE.items() for key in keys]


@functools.cache
def figures(*overrides: str) -> str:
    return json_text(simulate_job(*compose_config([*BASE, *overrides])).metrics)


@pytest.mark.parametrize(("router", "key"), SINGLE)
def test_an_option_of_a_router_changes_the_figures(router: str, key: str) -> None:
    chosen = f"routing={router}"
    assert figures(chosen, *CHANGES[router][key]) != figures(chosen)


@pytest.mark.parametrize(("router", "key"), BESIDE)
def test_an_option_of_a_router_changes_the_figures_beside_another(router: str, key: str) -> None:
    needed, change = CHANGES_BESIDE[router][key]
    chosen = f"routing={router}"
    kept = [item for item in needed if item.split("=")[0] != change.split("=")[0]]
    assert figures(chosen, *kept, change) != figures(chosen, *needed)


def test_every_option_of_every_router_is_covered() -> None:
    for router in options_in("routing"):
        keys = set(composed("routing", router)["routing"]) - {"_target_"}
        if router != "vllm_dp":
            keys -= {"view_delay_s", "publish_period_s", "assume_dispatches", "tie_shift"}
        else:
            keys -= {"view_delay_s", "assume_dispatches", "tie_shift"}
        covered = set(CHANGES.get(router, {})) | set(CHANGES_BESIDE.get(router, {}))
        assert keys == covered, router


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("lmetric", "window_s=30"), "routing.window_s=30.* no effect with routing.hotspot=off"),
        (("lmetric", "class_tokens=30"), "routing.class_tokens=30 has no effect"),
        (("lmetric", "hotspot=on"), "routing.hotspot=.*: must be"),
        (("lmetric", "prefill=hits"), "routing.prefill=hits: must be one of tokens, miss_ratio"),
        (("lmetric", "hotspot=sliding", "window_s=0"), "routing.window_s=0.*: must be above 0"),
        (("most_hit", "max_queued_tokens=0"), "routing.max_queued_tokens=0: must be at least 1"),
        (("linear", "hit_weight=-1"), "routing.hit_weight=-1.*: must be at least 0"),
        (("dynamo", "formula=old"), "routing.formula=old: must be one of ratio, blocks"),
        (("dynamo", "device_credit=1"), "routing.device_credit=1.* with routing.formula=blocks"),
        (("dynamo", "ttl_s=1"), "routing.ttl_s=1.* with routing.prefix_index=exact"),
        (("dynamo", "max_tree_blocks=1"), "routing.max_tree_blocks=1 has no effect with"),
        (("dynamo", "prefix_index=assumed", "max_tree_blocks=0"), "max_tree_blocks=0: must be at"),
        (("llm_d", "lru_blocks=0"), "routing.lru_blocks=0: must be at least 1"),
        (("llm_d", "prefix_index=exact", "lru_blocks=9"), "routing.lru_blocks=9 has no effect"),
        (("llm_d", "prefix_index=lru"), "routing.prefix_index=lru: must be one of assumed, exact"),
        (("aibrix", "std_factor=-1"), "routing.std_factor=-1.*: must be at least 0"),
        (("preble", "match_share=2"), "routing.match_share=2.*: must be 0 to 1"),
        (("sglang_router", "balance_rel_threshold=0.5"), "routing.balance_rel_threshold=0.5"),
        (("polyserve", "ttft_s=0"), "routing.ttft_s=0.*: must be above 0"),
        (("smetric", "token_budget=0"), "routing.token_budget=0: must be at least 1"),
    ],
)
def test_an_option_out_of_range_or_unread_is_refused(
    overrides: tuple[str, ...], message: str
) -> None:
    router, *values = overrides
    config, _ = compose_config([f"routing={router}", *[f"routing.{value}" for value in values]])
    with pytest.raises(ConfigError, match=message):
        read_job(config).routing.build()


def test_a_cache_without_events_is_matched_live_only() -> None:
    overrides = ["engine=sglang", "routing=lmetric", "routing.view_delay_s=0.5"]
    with pytest.raises(ConfigError, match=r"router LMetric matches prefixes.*Sglang"):
        simulate_job(*compose_config([*BASE, "engine.num_gpu_blocks=3000", *overrides]))
