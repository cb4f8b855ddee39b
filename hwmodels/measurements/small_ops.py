"""Measured small operators of a layer: norms, rotary embedding, activation, residual additions."""

from pathlib import Path

from hwmodels.measurements.rows import MeasuredRows, median_of_repeats
from hwmodels.measurements.tables import read_table, rows_of

SOURCE = "per-operator GPU times of microsoft/vidur (MIT), median over runs"

NUM_ADDITIONS = 2
"""Residual additions of a layer: after attention and after the feed-forward."""

_LAYER = {
    "time_stats.input_layernorm.median": 1,
    "time_stats.attn_rope.median": 1,
    "time_stats.post_attention_layernorm.median": 1,
    "time_stats.mlp_act.median": 1,
    "time_stats.add.median": NUM_ADDITIONS,
}
"""Operators of a layer that are neither matrix products nor attention, and how often each runs."""

RESOLUTION_S = 1e-6
"""The profiler of these tables counts whole microseconds."""


_NORM_ROWS = 8
"""Rows that two norms with their residual additions read and write per token."""
_ACTIVATION_ROWS = 3
"""Gate and up projection read, product written."""
_ELEMENT_BYTES = 2

_SHAPE = ("n_embd", "n_head", "n_kv_head", "n_expanded_embd", "num_tensor_parallel_workers")


def load_small_ops(path: Path) -> MeasuredRows:
    """Rows: `num_tokens`, `token_bytes` that a layer moves per token on one GPU; time of a layer.

    One operator is known to 1 us at best, the sum of a layer to about 0.7 us. Left out: sums below
    four times the resolution.

    Args:
        path: table with medians in ms.

    Raises:
        ConfigError: the file is missing or not such a table.
    """
    frame = read_table(path, (*_LAYER, "num_tokens", *_SHAPE))
    hidden, heads, kv_heads, width, degree = (frame[name] for name in _SHAPE)
    kv_heads = kv_heads.where(kv_heads >= degree, degree)
    norms = _NORM_ROWS * hidden
    rotary = 2 * (hidden / heads) * (heads + kv_heads) / degree
    activation = _ACTIVATION_ROWS * width / degree
    frame = frame.assign(
        token_bytes=_ELEMENT_BYTES * (norms + rotary + activation),
        total=sum(frame[name] * count for name, count in _LAYER.items()),
    )
    names = {"num_tokens": "num_tokens", "token_bytes": "token_bytes"}
    rows = rows_of(frame, path, names, "total", SOURCE)
    is_resolved = rows.time_s >= 4 * RESOLUTION_S
    return median_of_repeats(rows.where(is_resolved, "below the profiler's resolution"))
