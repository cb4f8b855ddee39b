"""Measured fused mixture-of-experts layers in bf16."""

from pathlib import Path

from hwmodels.measurements.rows import MeasuredRows, median_of_repeats
from hwmodels.measurements.tables import keep_where, read_table, rows_of

SOURCE = "MoE table of aiconfigurator-core 0.12.0 (vLLM, Apache-2.0)"

_NEEDED = (
    "moe_dtype",
    "num_tokens",
    "hidden_size",
    "inter_size",
    "topk",
    "num_experts",
    "moe_tp_size",
    "moe_ep_size",
    "latency",
)


def load_moe(path: Path) -> MeasuredRows:
    """Rows: `num_tokens`, `hidden_size`, `intermediate_size` (per GPU), `top_k`, `num_experts`.

    The width of an expert is divided by the tensor-parallel degree. Left out: expert parallel
    rows, whose tokens per GPU depend on a routing that the table does not record.

    Raises:
        ConfigError: the file is missing or not such a table.
    """
    frame = read_table(path, _NEEDED)
    kept, other_type = keep_where(frame, "moe_dtype", ("bfloat16",), "not bfloat16")
    kept, spread = keep_where(kept, "moe_ep_size", (1,), "expert parallel")
    kept = kept.assign(width=kept["inter_size"] / kept["moe_tp_size"])
    names = {
        "num_tokens": "num_tokens",
        "hidden_size": "hidden_size",
        "intermediate_size": "width",
        "top_k": "topk",
        "num_experts": "num_experts",
    }
    rows = rows_of(kept, path, names, "latency", SOURCE, other_type + spread)
    return median_of_repeats(rows, "the same shape with another spread of tokens over experts")
