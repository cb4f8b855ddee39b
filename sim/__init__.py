"""Discrete-event core of flocksim: requests, KV cache, instances, clusters, records."""

from sim.compiled import search_path

COMPILED = (
    "arrivals",
    "candidates",
    "decode_batch",
    "extents",
    "instance",
    "instance_state",
    "kv_cache",
    "loads",
    "operations",
    "policy_hooks",
    "prefill_adder",
    "prefix_index",
    "prefix_index_cache",
    "prefix_index_feed",
    "prefix_index_log",
    "queued_hits",
    "radix_cache",
    "radix_tree",
    "recorder",
    "request",
    "running_tree",
    "sglang",
    "sglang_batch",
    "step_clock",
    "step_ends",
    "step_plan",
    "token_ratio",
    "vllm_v1",
)
"""Modules that `flocksim-compile` translates."""

__path__ = search_path(__name__, __path__)
