"""A site for executors in tests: a small model on an A100, priced by the roofline."""

from typing import Any

from hwmodels.device import load_profile
from hwmodels.executors.executor import Site
from hwmodels.model_catalogue import load_model
from hwmodels.roofline import RooflineCost
from sim.units import GIB

BLOCK_TOKENS = 16


def site_of(model: str = "llama3_8b", tensor_parallel: int = 1, **options: Any) -> Site:
    """A site with 32 GiB for KV and 256 seats; every attribute can be overridden."""
    cost = RooflineCost(load_profile("a100_sxm_80gb"), load_model(model), tensor_parallel)
    block_bytes = BLOCK_TOKENS * cost.shard.kv_bytes_per_token
    values: dict[str, Any] = {
        "cost": cost,
        "kv_bytes": 32 * GIB,
        "num_gpu_blocks": 32 * GIB // block_bytes,
        "block_tokens": BLOCK_TOKENS,
        "max_num_seqs": 256,
        "max_model_len": None,
    }
    return Site(**{**values, **options})
