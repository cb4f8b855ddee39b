"""Measured decode attention over prefix trees: relative performance of several kernels."""

from dataclasses import dataclass
from pathlib import Path

from hwmodels.measurements.rows import LeftOut, file_sha256, left_out
from hwmodels.measurements.tables import read_table
from sim.errors import ConfigError

SOURCE = "figure of the PAT artifact (flashserve/PAT, MIT), A100, read to 1.5 points"

KERNELS = {"PAT": "packed", "FlashInfer": "flashinfer", "FlashAttn": "flash_pat"}
"""Method of the figure -> kernel here; the other methods have no model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixTreeRow:
    """One kernel on one regular prefix tree with one head shape.

    Attributes:
        tree_id: number of the tree.
        nodes_per_level: nodes at each depth, the root level first; every leaf is one request.
        tokens_per_level: tokens of every node at that depth.
        num_heads: query heads.
        num_kv_heads: KV heads.
        kernel: name of the kernel model.
        performance_ratio: speed relative to the fastest method on this tree, at most 1.
    """

    tree_id: int
    nodes_per_level: tuple[int, ...]
    tokens_per_level: tuple[int, ...]
    num_heads: int
    num_kv_heads: int
    kernel: str
    performance_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixTreeRows:
    """Rows of the figure.

    Attributes:
        rows: one per tree, head shape and kernel.
        source: citation.
        sha256: of the file, hexadecimal.
        left_out: rows of the file that are not here.
    """

    rows: tuple[PrefixTreeRow, ...]
    source: str
    sha256: str
    left_out: tuple[LeftOut, ...]


def load_shared_prefix(path: Path) -> PrefixTreeRows:
    """Rows of the kernels that have a model; only ratios between them were measured.

    Raises:
        ConfigError: the file is missing or not such a table.
    """
    names = ("heads_q_kv", "tree_id", "tree_B_L", "method", "normalized_perf_pct")
    frame = read_table(path, names)
    rows = []
    for heads, tree_id, tree, method, percent in frame[list(names)].itertuples(index=False):
        if method in KERNELS and percent > 0:
            rows.append(_row(path, str(heads), int(tree_id), str(tree), str(method), percent))
    others = left_out(len(frame) - len(rows), "methods without a model")
    return PrefixTreeRows(
        rows=tuple(rows), source=SOURCE, sha256=file_sha256(path), left_out=others
    )


def _row(
    path: Path, heads: str, tree_id: int, tree: str, method: str, percent: float
) -> PrefixTreeRow:
    try:
        nodes, tokens = (tuple(map(int, part.split(","))) for part in tree.split("_"))
        num_heads, num_kv_heads = map(int, heads.split("/"))
    except ValueError:
        raise ConfigError(f"{path}: cannot read tree {tree!r} with heads {heads!r}") from None
    return PrefixTreeRow(
        tree_id=tree_id,
        nodes_per_level=nodes,
        tokens_per_level=tokens,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        kernel=KERNELS[method],
        performance_ratio=percent / 100,
    )
