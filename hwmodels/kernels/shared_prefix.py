"""Decode attention of one layer on one GPU when requests share prefixes, by kernel.

`flash` and `flash_cascade` are priced with the decode form, whose thread blocks bound what the
processors read; `flash_pat` and `flashinfer` are other builds of kernels that ignore sharing, known
from ratios only; `packed` reads every node once. Not modelled: mixed steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeVar, get_args

import numpy as np

from hwmodels.kernels.arrays import as_times, smooth_max
from hwmodels.kernels.cascade import common_prefix_tokens, prefix_pass_s, uses_cascade
from hwmodels.kernels.decode_attention import DecodeAttentionModel
from hwmodels.kernels.l2_curve import L2Curve
from hwmodels.kernels.packed import PackedModel
from hwmodels.kernels.parameters import COUNT, P_NORM, RATE, SECONDS, WEIGHT, check_parameters
from hwmodels.kernels.prefill_attention import PrefillAttentionModel
from hwmodels.kernels.prefix_batch import PrefixBatch
from hwmodels.kernels.tree_traffic import MemberOrder, TreeTraffic, tree_traffic
from hwmodels.strict_json import shown
from sim.errors import ConfigError
from sim.interfaces import FloatArray

SharedPrefixKernel = Literal["flash", "flash_pat", "flash_cascade", "flashinfer", "packed"]

_TILE_QUERIES = 64
"""Query heads of one KV head that a thread block of the decode form takes together."""
_KV_BYTES = 4
"""Bytes of a key and a value element, 16 bit each."""

PartT = TypeVar("PartT")


class _Heads(NamedTuple):
    """Heads of one GPU."""

    num_heads: int
    num_kv_heads: int
    head_dim: int

    @property
    def token_bytes(self) -> int:
        return _KV_BYTES * self.num_kv_heads * self.head_dim

    @property
    def query_tiles(self) -> int:
        return -(-self.num_heads // (self.num_kv_heads * _TILE_QUERIES))


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPrefixModel:
    """Times over a prefix tree; the last three fields are models of the same device.

    `flash_pat` and `flashinfer` take `launch + pnorm(T / read rate, M / HBM rate)` with T the
    logical bytes and M those from HBM.

    Source: fitted form; ratios of times on prefix trees, PAT artifact (flashserve/PAT) on an A100.
    They bound the midpoint of the L2 curve from below and fix the read rates; slots, drift and the
    hits within a wave they do not identify.

    Attributes:
        hbm_bytes_per_s: memory rate; fixes the scale, for only ratios were measured.
        launch_s: fixed time of a kernel that ignores sharing.
        p_norm: exponent that joins the two bounds of such a kernel.
        flash_pat_gqa_bytes_per_s: rate of all reads, that FlashAttention, grouped queries.
        flash_pat_mha_bytes_per_s: the same with one query head per KV head.
        flashinfer_gqa_bytes_per_s: rate of all reads, FlashInfer, grouped queries.
        flashinfer_mha_bytes_per_s: the same with one query head per KV head.
        cta_slots: thread blocks that run at once in those two kernels; not identified.
        drift_tokens: tokens by which requests of one wave run apart; not identified.
        packed: the kernel that reads each node once; its merge also ends a cascade.
        cascade_scale: measured time of a cascade over that of its parts; 1 where not measured.
        l2: hit curve; None: not known, and no kernel but `packed` can be priced.
        decode_attention: needed by `flash` and `flash_cascade`.
        prefill_attention: needed by `flash_cascade`.
    """

    hbm_bytes_per_s: float = field(metadata=RATE)
    launch_s: float = field(metadata=SECONDS)
    p_norm: float = field(metadata=P_NORM)
    flash_pat_gqa_bytes_per_s: float = field(metadata=RATE)
    flash_pat_mha_bytes_per_s: float = field(metadata=RATE)
    flashinfer_gqa_bytes_per_s: float = field(metadata=RATE)
    flashinfer_mha_bytes_per_s: float = field(metadata=RATE)
    cta_slots: int = field(metadata=COUNT)
    drift_tokens: float = field(metadata=COUNT)
    packed: PackedModel
    cascade_scale: float = field(default=1.0, metadata=WEIGHT)
    l2: L2Curve | None = None
    decode_attention: DecodeAttentionModel | None = None
    prefill_attention: PrefillAttentionModel | None = None

    def __post_init__(self) -> None:
        check_parameters(self)

    def time_s(
        self,
        nodes_per_level: Sequence[int],
        tokens_per_level: Sequence[int],
        num_heads: int,
        num_kv_heads: int,
        head_dim: int = 128,
        kernel: SharedPrefixKernel = "flash",
        member_order: MemberOrder = "contiguous",
    ) -> float:
        """Seconds over a regular tree, in which every node of the last level is one request.

        Args:
            nodes_per_level: nodes of each level from the roots down, shape (levels,).
            tokens_per_level: tokens of a node of each level, shape (levels,).
            num_heads: query heads on this GPU.
            num_kv_heads: KV heads on this GPU.
            head_dim: width of a head.
            kernel: flash, flash_pat, flash_cascade, flashinfer or packed.
            member_order: contiguous, requests side by side as a tree is written down and as kernel
                benchmarks lay them out, or interleaved, as an engine meets them.

        Raises:
            ConfigError: not a tree, an unknown kernel, or one whose model the device lacks.
        """
        batch = PrefixBatch.from_levels(nodes_per_level, tokens_per_level)
        return float(
            self.steps_s(batch, num_heads, num_kv_heads, head_dim, kernel, member_order)[0]
        )

    def tree_time_s(
        self,
        parents: Sequence[int],
        node_tokens: Sequence[int],
        members: Sequence[int],
        num_heads: int,
        num_kv_heads: int,
        head_dim: int = 128,
        kernel: SharedPrefixKernel = "flash",
        member_order: MemberOrder = "contiguous",
    ) -> float:
        """Seconds over any forest, given node by node, parents before children.

        Args:
            parents: parent of each node, -1 for a root. Shape (nodes,).
            node_tokens: tokens of each node. Shape (nodes,).
            members: requests that read each node. Shape (nodes,).
            num_heads, num_kv_heads, head_dim, kernel, member_order: see `time_s`.

        Raises:
            ConfigError: not a forest, an unknown kernel, or one whose model the device lacks.
        """
        batch = PrefixBatch.from_tree(parents, node_tokens, members)
        return float(
            self.steps_s(batch, num_heads, num_kv_heads, head_dim, kernel, member_order)[0]
        )

    def steps_s(
        self,
        batch: PrefixBatch,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int = 128,
        kernel: SharedPrefixKernel = "flash",
        member_order: MemberOrder = "interleaved",
        num_steps: int = 1,
    ) -> FloatArray:
        """Seconds of one layer in each of the next `num_steps` steps. Shape (num_steps,).

        Requests are interleaved unless the caller says otherwise: engines keep arrival order.

        Raises:
            ConfigError: an unknown kernel, or one whose model the device lacks.
        """
        if kernel not in get_args(SharedPrefixKernel):
            allowed = ", ".join(get_args(SharedPrefixKernel))
            raise ConfigError(f"unknown kernel {shown(kernel)}; allowed: {allowed}")
        heads = _Heads(num_heads, num_kv_heads, head_dim)
        if kernel == "packed":
            return self._packed_s(batch, heads, num_steps)
        if kernel == "flash":
            return self._flash_s(batch, heads, member_order, num_steps)
        if kernel == "flash_cascade":
            return self._cascade_s(batch, heads, member_order, num_steps)
        moved = self.traffic(batch, *heads, kernel, member_order, num_steps)
        read_s = moved.logical_bytes / self.read_bytes_per_s(kernel, num_heads > num_kv_heads)
        return as_times(
            self.launch_s + smooth_max(read_s, moved.hbm_bytes / self.hbm_bytes_per_s, self.p_norm)
        )

    def read_bytes_per_s(self, kernel: SharedPrefixKernel, is_grouped: bool) -> float:
        """Rate at which `flash_pat` or `flashinfer` reads, hits included, bytes/s."""
        if kernel == "flash_pat":
            return self.flash_pat_gqa_bytes_per_s if is_grouped else self.flash_pat_mha_bytes_per_s
        return self.flashinfer_gqa_bytes_per_s if is_grouped else self.flashinfer_mha_bytes_per_s

    def traffic(
        self,
        batch: PrefixBatch,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int = 128,
        kernel: SharedPrefixKernel = "flash",
        member_order: MemberOrder = "interleaved",
        num_steps: int = 1,
    ) -> TreeTraffic:
        """Traffic of a kernel that ignores sharing, in each of the next `num_steps` steps.

        `flash` (also the suffixes of a cascade) takes slots and splits from the decode form; the
        other builds have `cta_slots` slots and no splits.

        Raises:
            ConfigError: the device lacks the L2 curve or the decode form.
        """
        heads = _Heads(num_heads, num_kv_heads, head_dim)
        ctas_per_request: FloatArray = np.asarray(float(num_kv_heads * heads.query_tiles))
        slots = self.cta_slots
        if kernel in ("flash", "flash_cascade"):
            decode = _known("decode_attention", self.decode_attention)
            longest = batch.context_tokens_max + np.arange(num_steps)
            splits = decode.splits(batch.batch_size, longest, num_heads, num_kv_heads)
            ctas_per_request, slots = ctas_per_request * splits, decode.split_slots
        return tree_traffic(
            batch,
            _known("l2", self.l2),
            token_bytes=heads.token_bytes,
            requests_per_wave=slots / ctas_per_request,
            drift_tokens=self.drift_tokens,
            member_order=member_order,
            num_steps=num_steps,
        )

    def _flash_s(
        self, batch: PrefixBatch, heads: _Heads, member_order: MemberOrder, num_steps: int
    ) -> FloatArray:
        """The decode form with the bytes that come from HBM."""
        decode = _known("decode_attention", self.decode_attention)
        moved = self.traffic(batch, *heads, "flash", member_order, num_steps)
        hbm_bytes = moved.hbm_bytes
        is_grouped = heads.num_heads > heads.num_kv_heads
        limit = decode.cta_gqa_bytes_per_s if is_grouped else decode.cta_mha_bytes_per_s
        if limit is None:  # then hits take time at the rate of L2, and not none at all
            l2_share = decode.hbm_bytes_per_s / _known("l2", self.l2).l2_bytes_per_s
            hbm_bytes = hbm_bytes + (moved.logical_bytes - hbm_bytes) * min(l2_share, 1.0)
        steps = np.arange(num_steps, dtype=np.float64)
        size, total = batch.batch_size, batch.context_tokens_sum
        return decode.time_s(
            size,
            total + size * steps,
            batch.context_tokens_max + steps,
            batch.sum_squares + steps * (2.0 * total + size * steps),
            *heads,
            hbm_bytes=hbm_bytes,
        )

    def _cascade_s(
        self, batch: PrefixBatch, heads: _Heads, member_order: MemberOrder, num_steps: int
    ) -> FloatArray:
        """A pass over the common prefix, the suffixes, and a merge, where the rule cascades."""
        decode = _known("decode_attention", self.decode_attention)
        prefill = _known("prefill_attention", self.prefill_attention)
        # The last token of a context is computed in this step, and is nobody else's.
        prefix = common_prefix_tokens(batch.common_tokens, batch.context_tokens_max - 1)
        size, num_heads = batch.batch_size, heads.num_heads
        if not uses_cascade(size, prefix, num_heads, heads.num_kv_heads, decode.num_sms):
            return self._flash_s(batch, heads, member_order, num_steps)
        suffixes_s = self._flash_s(batch.without_common(prefix), heads, member_order, num_steps)
        merge_s = decode.launch_s + self.packed.merge_s(size, num_heads, heads.head_dim)
        parts_s = suffixes_s + (prefix_pass_s(prefill, size, prefix, *heads) + merge_s)
        return as_times(self.cascade_scale * parts_s)

    def _packed_s(self, batch: PrefixBatch, heads: _Heads, num_steps: int) -> FloatArray:
        added = batch.batch_size * np.arange(num_steps, dtype=np.float64)
        return self.packed.time_s(
            batch.context_tokens_sum + added,
            (batch.unique_tokens + added) * heads.token_bytes,
            batch.num_partials,
            heads.num_heads,
            heads.head_dim,
        )


def _known(name: str, model: PartT | None) -> PartT:
    if model is None:
        raise ConfigError(f"shared prefixes with this kernel need {name}, which the device lacks")
    return model
