"""Reads and triads over a data set, several passes in one launch so that the launch is hidden."""

import torch
import triton
import triton.language as tl

_BLOCK = 4096
_PROGRAMS_PER_SM = 5
"""All at once: 40 registers of 256 threads leave room for 6."""


@triton.jit(do_not_specialize=["num_blocks", "num_passes"])
def _read_kernel(source, sums, num_blocks, num_passes, block: tl.constexpr):
    program = tl.program_id(0)
    num_programs = tl.num_programs(0)
    offsets = tl.arange(0, block)
    total = tl.zeros((block,), dtype=tl.float32)
    for number in range(num_passes):
        # Another program each pass, and no L1: a repeat must come from L2 or memory.
        first = (program + number * 37) % num_programs
        for at in range(first, num_blocks, num_programs):
            start = at * block
            total += tl.load(source + start + offsets, cache_modifier=".cg")
    tl.store(sums + program, tl.sum(total, axis=0))


@triton.jit(do_not_specialize=["num_blocks", "num_passes"])
def _triad_kernel(result, left, right, scale, num_blocks, num_passes, block: tl.constexpr):
    program = tl.program_id(0)
    num_programs = tl.num_programs(0)
    offsets = tl.arange(0, block)
    for number in range(num_passes):
        first = (program + number * 37) % num_programs
        for at in range(first, num_blocks, num_programs):
            start = at * block
            a = tl.load(left + start + offsets, cache_modifier=".cg")
            b = tl.load(right + start + offsets, cache_modifier=".cg")
            tl.store(result + start + offsets, a + scale * b, cache_modifier=".cg")


def num_elements(num_bytes: int) -> int:
    """Float32 elements of an array of about that many bytes: whole blocks, at least one."""
    return max(1, round(num_bytes / (4 * _BLOCK))) * _BLOCK


def num_programs(num_sms: int) -> int:
    """Programs that run at once."""
    return num_sms * _PROGRAMS_PER_SM


def read(source: torch.Tensor, sums: torch.Tensor, num_passes: int = 1) -> None:
    """Sum of all elements by program, over all passes.

    Args:
        source: float32, shape (a multiple of the block,).
        sums: float32, shape (programs,); overwritten.
        num_passes: passes over `source`.
    """
    num_blocks = source.numel() // _BLOCK
    _read_kernel[(sums.numel(),)](
        source, sums, num_blocks, num_passes, block=_BLOCK, num_warps=8, num_stages=1
    )


def triad(
    result: torch.Tensor,
    left: torch.Tensor,
    right: torch.Tensor,
    scale: float,
    num_programs: int,
    num_passes: int = 1,
) -> None:
    """`result = left + scale right`, all float32 of the same shape (a multiple of the block,)."""
    num_blocks = result.numel() // _BLOCK
    _triad_kernel[(num_programs,)](
        result, left, right, scale, num_blocks, num_passes, block=_BLOCK, num_warps=8, num_stages=1
    )
