"""Matrix product in bf16 with float32 sums."""

from typing import NamedTuple

import torch
import triton
import triton.language as tl


class Tile(NamedTuple):
    """Tile of a thread block."""

    rows: int
    columns: int
    inner: int
    num_warps: int
    num_stages: int


_GROUP_ROWS = 8
"""Tiles above one another that run side by side: they share columns of B in L2."""


def tile_of(num_rows: int) -> Tile:
    """The tile for that many rows: narrow where few rows leave processors idle."""
    if num_rows <= 16:
        return Tile(16, 32, 128, 4, 4)
    if num_rows <= 64:
        return Tile(64, 32, 128, 4, 3)
    return Tile(128, 128, 64, 8, 3)


@triton.jit(do_not_specialize=["num_rows"])
def _gemm_kernel(
    left,
    right,
    result,
    num_rows,
    num_columns,
    num_inner,
    rows: tl.constexpr,
    columns: tl.constexpr,
    inner: tl.constexpr,
    group_rows: tl.constexpr,
):
    tile_rows = tl.cdiv(num_rows, rows)
    tile_columns = tl.cdiv(num_columns, columns)
    program = tl.program_id(0)
    in_group = group_rows * tile_columns
    first_row = (program // in_group) * group_rows
    group_size = tl.minimum(tile_rows - first_row, group_rows)
    tile_row = first_row + (program % in_group) % group_size
    tile_column = (program % in_group) // group_size

    row = (tile_row * rows + tl.arange(0, rows)).to(tl.int64)
    column = (tile_column * columns + tl.arange(0, columns)).to(tl.int64)
    depth = tl.arange(0, inner)
    is_row = row < num_rows
    is_column = column < num_columns
    total = tl.zeros((rows, columns), dtype=tl.float32)
    for start in range(0, num_inner, inner):
        at = start + depth
        is_inner = at < num_inner
        a = tl.load(
            left + row[:, None] * num_inner + at[None, :],
            mask=is_row[:, None] & is_inner[None, :],
            other=0.0,
        )
        b = tl.load(
            right + at[:, None].to(tl.int64) * num_columns + column[None, :],
            mask=is_inner[:, None] & is_column[None, :],
            other=0.0,
        )
        total = tl.dot(a, b, total)
    tl.store(
        result + row[:, None] * num_columns + column[None, :],
        total.to(result.dtype.element_ty),
        mask=is_row[:, None] & is_column[None, :],
    )


def gemm(left: torch.Tensor, right: torch.Tensor, result: torch.Tensor) -> None:
    """`result = left right`; contiguous bf16 of shapes (m, k), (k, n) and (m, n)."""
    num_rows, num_inner = left.shape
    num_columns = right.shape[1]
    tile = tile_of(num_rows)
    num_tiles = -(-num_rows // tile.rows) * -(-num_columns // tile.columns)
    _gemm_kernel[(num_tiles,)](
        left,
        right,
        result,
        num_rows,
        num_columns,
        num_inner,
        rows=tile.rows,
        columns=tile.columns,
        inner=tile.inner,
        group_rows=_GROUP_ROWS,
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )
