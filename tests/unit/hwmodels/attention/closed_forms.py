"""What a decode step should cost by the closed forms over arrays, hits where the engine takes them.

The forms price a batch at its very contexts; a simulation brings the hit ratios up to date once for
every `HIT_TOKENS` of the mean context, to those at the end of such a stretch.
"""

from dataclasses import replace

import numpy as np

from hwmodels.attention.choice import KernelChoice
from hwmodels.attention.l2_reads import HIT_TOKENS
from hwmodels.kernels.arrays import smooth_max
from hwmodels.kernels.cascade import common_prefix_tokens, prefix_pass_s, uses_cascade
from hwmodels.kernels.prefix_batch import PrefixBatch
from hwmodels.kernels.tree_traffic import tree_traffic
from hwmodels.model_shape import ModelShape
from tests.unit.hwmodels.attention.batches import Gpu, SharingBatch

Heads = tuple[int, int, int]


def heads_of(shape: ModelShape) -> Heads:
    """Query heads, KV heads and their width."""
    return shape.num_attention_heads, shape.num_kv_heads, shape.head_dim


def at_refreshed_context(batch: PrefixBatch) -> PrefixBatch:
    """The same sharing with the sum of the contexts at which hit ratios are worked out."""
    stretch = HIT_TOKENS * batch.batch_size
    total = int(batch.context_tokens_sum)
    grown = (total // stretch + 1) * stretch - total
    tokens = batch.tokens.copy()
    (own,) = np.flatnonzero(batch.members == 1)
    tokens[own] += grown
    return replace(batch, tokens=tokens)


def hit_tokens(device: Gpu, shape: ModelShape, choice: KernelChoice, batch: PrefixBatch) -> float:
    """Context tokens of a step that are read from L2."""
    heads, kv_heads, width = heads_of(shape)
    slots, splits, shared = device.shared.cta_slots, 1.0, device.shared
    if choice.has_decode_form:
        decode = device.kernels.decode_attention
        assert decode is not None
        slots = decode.split_slots
        if choice.family == "split_kv":
            longest = batch.context_tokens_max
            splits = float(decode.splits(batch.batch_size, longest, heads, kv_heads))
    assert shared.l2 is not None
    moved = tree_traffic(
        at_refreshed_context(batch),
        shared.l2,
        token_bytes=4.0 * kv_heads * width,
        requests_per_wave=slots / (kv_heads * -(-heads // (kv_heads * 64)) * splits),
        drift_tokens=shared.drift_tokens,
        member_order=choice.member_order,
    )
    found: float = (moved.logical_bytes - moved.hbm_bytes)[0] / (4.0 * kv_heads * width)
    return found


def cascaded_tokens(device: Gpu, shape: ModelShape, batch: PrefixBatch) -> int:
    """Tokens that a decode step reads in a pass of their own; all that run decode."""
    decode = device.kernels.decode_attention
    assert decode is not None
    prefix = common_prefix_tokens(batch.common_tokens, batch.context_tokens_max - 1)
    heads = heads_of(shape)[:2]
    return prefix if uses_cascade(batch.batch_size, prefix, *heads, decode.num_sms) else 0


def decode_s(device: Gpu, shape: ModelShape, choice: KernelChoice, sharing: SharingBatch) -> float:
    """Seconds of all layers of a decode step with hits in L2."""
    batch = PrefixBatch.from_view(sharing)
    heads = heads_of(shape)
    if choice.name == "packed":
        return shape.num_layers * float(device.shared.steps_s(batch, *heads, kernel="packed")[0])
    if choice.has_decode_form:
        layer_s = 0.0
        if choice.name == "flash_cascade":
            common = cascaded_tokens(device, shape, batch)
            if common:
                layer_s = prefix_and_merge_s(device, shape, batch.batch_size, common)
                batch = batch.without_common(common)
        return shape.num_layers * (layer_s + _flash_s(device, shape, choice, batch))
    token_bytes = 4 * heads[1] * heads[2]
    total, shared = batch.context_tokens_sum, device.shared
    moved = (total - hit_tokens(device, shape, choice, batch)) * token_bytes
    read_s = total * token_bytes / shared.read_bytes_per_s(choice.name, heads[0] > heads[1])
    bound_s = smooth_max(read_s, moved / shared.hbm_bytes_per_s, shared.p_norm)
    return shape.num_layers * float(shared.launch_s + bound_s)


def prefix_and_merge_s(device: Gpu, shape: ModelShape, num_queries: int, common: int) -> float:
    """Pass over a common prefix and merge, seconds of one layer."""
    models, heads = device.kernels, heads_of(shape)
    assert models.prefill_attention is not None
    assert models.decode_attention is not None
    merge_s = device.shared.packed.merge_s(num_queries, heads[0], heads[2])
    pass_s = prefix_pass_s(models.prefill_attention, num_queries, common, *heads)
    return float(pass_s + models.decode_attention.launch_s + merge_s)


def _flash_s(device: Gpu, shape: ModelShape, choice: KernelChoice, batch: PrefixBatch) -> float:
    """The decode form, seconds of one layer."""
    decode, l2, heads = device.kernels.decode_attention, device.shared.l2, heads_of(shape)
    assert decode is not None
    assert l2 is not None
    limit = decode.cta_gqa_bytes_per_s if heads[0] > heads[1] else decode.cta_mha_bytes_per_s
    hit = hit_tokens(device, shape, choice, batch)
    if limit is None:  # hits take time at the rate of L2
        hit *= 1.0 - min(decode.hbm_bytes_per_s / l2.l2_bytes_per_s, 1.0)
    total, longest = batch.context_tokens_sum, batch.context_tokens_max
    squares: float = batch.sum_squares
    if choice.family != "split_kv":
        decode = replace(decode, split_slots=1)
    if choice.family == "padded":
        total = float(batch.batch_size * longest)
        squares = total * longest
    moved = (total - hit) * 4 * heads[1] * heads[2]
    return float(decode.time_s(batch.batch_size, total, longest, squares, *heads, hbm_bytes=moved))
