"""Merges partial results of attention into the results over whole contexts."""

import torch
import triton
import triton.language as tl

from hwmodels.microbench.kernels.decode_attention import Partials


@triton.jit(do_not_specialize=["num_rows", "num_slots"])
def _merge_kernel(
    partial_values,
    log_sums,
    result,
    num_rows,
    num_slots,
    block_slots: tl.constexpr,
    head_dim: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    slot = tl.arange(0, block_slots)
    width = tl.arange(0, head_dim)
    is_slot = slot < num_slots
    at = slot.to(tl.int64) * num_rows + row
    log_sum = tl.load(log_sums + at, mask=is_slot, other=float("-inf"))
    weight = tl.exp2(log_sum - tl.max(log_sum, axis=0))
    weight = weight / tl.sum(weight, axis=0)
    part = tl.load(
        partial_values + at[:, None] * head_dim + width[None, :],
        mask=is_slot[:, None],
        other=0.0,
    )
    answer = tl.sum(part * weight[:, None], axis=0)
    tl.store(result + row * head_dim + width, answer.to(result.dtype.element_ty))


def merge(partials: Partials, result: torch.Tensor) -> None:
    """Merge all slots.

    Args:
        partials: parts, of which each request has at least one that is not empty.
        result: bf16, shape (requests, heads, head width); overwritten.
    """
    num_slots, num_requests, num_heads, head_dim = partials.values.shape
    num_rows = num_requests * num_heads
    _merge_kernel[(num_rows,)](
        partials.values,
        partials.log_sums,
        result,
        num_rows,
        num_slots,
        block_slots=triton.next_power_of_2(num_slots),
        head_dim=head_dim,
        num_warps=4,
    )
