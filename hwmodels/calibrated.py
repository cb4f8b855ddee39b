"""Step prices from kernels that were fitted to measurements of the very GPU.

Kernels of a step follow one another, and the host adds its time once. A decode step costs what
`hwmodels.kernels.decode_step` says of the same batch; prefill chunks of a step are priced one by
one beside its decodes. Not modelled: L2 hits of shared prefixes, decodes and prefills in one fused
call (which are slower than one after the other), overlap of collectives with compute, batches
padded to the sizes of CUDA graphs.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hwmodels.calibrated_ledger import CalibratedLedger
from hwmodels.collectives import all_gather_s, check_fits_node
from hwmodels.decode_pricer import DecodePricer
from hwmodels.device import DeviceSpec
from hwmodels.kernels.decode_step import layer_products
from hwmodels.kernels.prefill_attention import PrefillAttentionModel
from hwmodels.model_shape import ModelShape
from hwmodels.roofline import RooflineCost
from hwmodels.roofline_ledger import IntArray
from hwmodels.work import all_reduce_bytes, num_all_reduces, small_ops_bytes
from sim.interfaces import CostModel, DecodeBatchView, FloatArray, PrefillChunk
from sim.step_ends import StepEnds

_BLOCK = 128
"""Numbers of tokens priced together, at the first question about one of them."""


class TokenTimes(NamedTuple):
    """What follows from the tokens of a step, whatever their contexts, seconds."""

    gemm_s: float
    small_ops_s: float
    collective_s: float

    @property
    def total_s(self) -> float:
        """Sum of the terms."""
        return self.gemm_s + self.small_ops_s + self.collective_s


class CalibratedCost(CostModel):
    """Prices the steps of one instance on `tensor_parallel` GPUs.

    Args:
        device: the GPU; needs calibrated kernels.
        shape: the whole model.
        tensor_parallel: GPUs of the instance, inside one node.

    Raises:
        ConfigError: the device lacks a kernel that the model needs, or the model cannot be split
            over that many GPUs.

    Attributes:
        roofline: counts FLOPs and bytes.
        shard: the part of the model that one GPU holds.
        overhead_s: host time per step.
    """

    uses_prefix_tree = False

    def __init__(self, device: DeviceSpec, shape: ModelShape, tensor_parallel: int = 1) -> None:
        check_fits_node(tensor_parallel)
        self.device = device
        self.shape = shape
        self.shard = shape.sharded(tensor_parallel)
        self.tensor_parallel = tensor_parallel
        self.roofline = RooflineCost(device, shape, tensor_parallel)
        self.overhead_s = device.step_overhead_s
        self._decode_attention = device.kernel("decode_attention")
        self._prefill_attention = device.kernel("prefill_attention")
        self._small_ops = device.kernel("small_ops")
        self._pricer = DecodePricer(self._decode_attention, self.shard)
        self._attention_s = self._pricer.attention_s
        self._chunk_constants = _chunk_constants(self._prefill_attention, self.shard)
        self._decode_constant_s: dict[int, float] = {}
        self._layers: dict[int, TokenTimes] = {}
        self._logits: dict[int, TokenTimes] = {}
        self.tokens_s(1, 1)  # a kernel that is missing must be told now

    def decode_step_s(self, batch: DecodeBatchView) -> float:
        """Duration of the next decode-only step, seconds."""
        size = batch.num_requests
        try:
            constant_s = self._decode_constant_s[size]
        except KeyError:
            constant_s = self._price_decode(size)
        attention_s = self._attention_s(
            size, batch.context_tokens, batch.context_tokens_squared, batch.max_context_tokens
        )
        return attention_s + constant_s

    def decode_run_s(self, batch: DecodeBatchView, num_steps: int) -> FloatArray:
        """Durations of the next `num_steps` decode-only steps, seconds. Shape (num_steps,)."""
        return np.array(self._durations_s(batch, num_steps))

    def write_run_ends(
        self, batch: DecodeBatchView, num_steps: int, start_s: float, ends: StepEnds, at: int
    ) -> None:
        """Write the ends of decode-only steps."""
        view, end_s = ends.view, start_s
        for entry, duration_s in enumerate(self._durations_s(batch, num_steps), at):
            end_s += duration_s
            view[entry] = end_s

    def _durations_s(self, batch: DecodeBatchView, num_steps: int) -> list[float]:
        """The steps of a run, every one priced as `decode_step_s` would."""
        size, total = batch.num_requests, batch.context_tokens
        squares, longest = batch.context_tokens_squared, batch.max_context_tokens
        constant_s = self._decode_constant_s.get(size) or self._price_decode(size)
        price = self._pricer.price(size, longest)
        is_constant = price.splits == 1 and size > self._pricer.largest_split
        durations_s: list[float] = []
        if is_constant:
            _, _, _, _, _, _, _, slope_s, straggler_s = price
            fixed_s = price.fixed_s
            for _ in range(num_steps):
                attention_s = fixed_s + total * slope_s + (longest - squares / total) * straggler_s
                durations_s.append(attention_s + constant_s)
                squares += 2 * total + size
                total += size
                longest += 1
            return durations_s
        for _ in range(num_steps):
            durations_s.append(self._attention_s(size, total, squares, longest) + constant_s)
            squares += 2 * total + size
            total += size
            longest += 1
        return durations_s

    def _price_decode(self, num_requests: int) -> float:
        constant_s = self.overhead_s + self.tokens_s(num_requests, num_requests)
        self._decode_constant_s[num_requests] = constant_s
        return constant_s

    def mixed_step_s(self, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]) -> float:
        """Duration of the next step with decodes and prefill chunks, seconds."""
        if not chunks:
            return self.decode_step_s(batch)
        num_tokens = num_sampled = size = batch.num_requests
        attention_s = 0.0
        for new_tokens, prefix_tokens, is_last in chunks:
            num_tokens += new_tokens
            num_sampled += is_last
            attention_s += self._chunk_s(new_tokens, prefix_tokens)
        if size:
            attention_s += self._attention_s(
                size, batch.context_tokens, batch.context_tokens_squared, batch.max_context_tokens
            )
        return self.overhead_s + self.tokens_s(num_tokens, num_sampled) + attention_s

    def _chunk_s(self, new_tokens: int, prefix_tokens: int) -> float:
        """Attention of all layers of one prefill chunk: `PrefillAttentionModel` in plain Python."""
        tiles = -(-new_tokens // 64)
        pairs = 64 * (tiles * prefix_tokens + 32 * tiles * (tiles + 1))
        context_tokens = prefix_tokens + new_tokens
        fixed_s, pair_s, tail_s, new_token_s, context_s = self._chunk_constants
        moved_s = new_tokens * new_token_s + context_tokens * context_s
        return fixed_s + pairs * pair_s + context_tokens * tail_s + moved_s

    @property
    def kernels_in_use(self) -> list[str]:
        """Kernels that price the steps, by their fields of `KernelModels`."""
        names = ["gemm", "decode_attention", "prefill_attention", "small_ops"]
        names += ["moe"] if self.shard.num_experts else []
        return names + (["all_reduce"] if self.tensor_parallel > 1 else [])

    def open_ledger(self) -> CalibratedLedger:
        """An empty ledger for one instance."""
        return CalibratedLedger(self)

    # -- by kind of kernel -----------------------------------------------------------------------

    def decode_attention_s(
        self,
        step: FloatArray,
        batch_size: int | FloatArray,
        context_tokens: int | FloatArray,
        squares: int | FloatArray,
        longest: int | FloatArray,
    ) -> FloatArray:
        """Attention of all layers in steps of decode runs, seconds; arrays broadcast.

        Args:
            step: number of each step in its run, from 0.
            batch_size: requests of the run.
            context_tokens: sum of the contexts in its first step.
            squares: sum of their squares.
            longest: the longest of them.
        """
        shard = self.shard
        times_s: FloatArray = self._decode_attention.time_s(
            batch_size,
            context_tokens + batch_size * step,
            longest + step,
            squares + (2.0 * context_tokens) * step + batch_size * (step * step),
            shard.num_attention_heads,
            shard.num_kv_heads,
            shard.head_dim,
        )
        return shard.num_layers * times_s

    def prefill_attention_s(self, new_tokens: IntArray, prefix_tokens: IntArray) -> FloatArray:
        """Attention of all layers of prefill chunks, seconds. Shape (chunks,)."""
        shard = self.shard
        times_s: FloatArray = self._prefill_attention.time_s(
            1,
            new_tokens,
            prefix_tokens,
            shard.num_attention_heads,
            shard.num_kv_heads,
            shard.head_dim,
        )
        return shard.num_layers * times_s

    def tokens_s(self, num_tokens: int, num_sampled: int) -> float:
        """Time of a step without attention and host, seconds."""
        return self.layer_times(num_tokens).total_s + self.logits_times(num_sampled).total_s

    def layer_times(self, num_tokens: int) -> TokenTimes:
        """All layers but their attention, for so many tokens."""
        return self._layers.get(num_tokens) or self._price(self._layers, num_tokens)

    def logits_times(self, num_sampled: int) -> TokenTimes:
        """Logits and sampling of so many positions."""
        if not num_sampled:
            return TokenTimes(0.0, 0.0, 0.0)
        return self._logits.get(num_sampled) or self._price(self._logits, num_sampled)

    def _price(self, table: dict[int, TokenTimes], number: int) -> TokenTimes:
        """Fill the table around `number`."""
        first = (number - 1) // _BLOCK * _BLOCK + 1
        numbers = np.arange(first, first + _BLOCK, dtype=np.int64)
        price = self._price_layers if table is self._layers else self._price_logits
        columns = [np.broadcast_to(column, numbers.shape).tolist() for column in price(numbers)]
        table.update(zip(numbers.tolist(), map(TokenTimes, *columns), strict=True))
        return table[number]

    def _price_layers(self, tokens: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        device, shard = self.device, self.shard
        columns, inner = np.array(layer_products(shard)).T
        gemm_s = device.gemm_time_s(tokens[:, None], columns, inner).sum(axis=1)
        if shard.num_experts:
            gemm_s = gemm_s + device.moe_time_s(
                tokens,
                shard.hidden_size,
                shard.moe_intermediate_size,
                shard.experts_per_token,
                shard.num_experts,
            )
        token_bytes = small_ops_bytes(shard, 1) / shard.num_layers
        small_s = self._small_ops.time_s(tokens, token_bytes, shard.num_layers)
        message_bytes = all_reduce_bytes(shard, 1) * tokens
        reduce_s = np.zeros(len(tokens))
        if self.tensor_parallel > 1:
            reduce_s = device.allreduce_time_s(message_bytes, self.tensor_parallel)
        return shard.num_layers * gemm_s, small_s, num_all_reduces(shard) * reduce_s

    def _price_logits(self, sampled: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        shard = self.shard
        gemm_s = self.device.gemm_time_s(sampled, shard.vocab_size, shard.hidden_size)
        sample_s = self._small_ops.sample_s(sampled, self.shape.vocab_size)
        part_bytes = shard.vocab_size * shard.dtype_bytes
        gather_s = [
            all_gather_s(self.device, number * part_bytes, self.tensor_parallel)
            for number in sampled.tolist()
        ]
        return gemm_s, sample_s, np.array(gather_s)


def _chunk_constants(
    model: PrefillAttentionModel, shard: ModelShape
) -> tuple[float, float, float, float, float]:
    """Seconds of all layers: per chunk; per pair in whole tiles; per token of the context for the
    tail; per new token and per token of the context for what is moved."""
    layers, head_dim = shard.num_layers, shard.head_dim
    pair_s = layers * 4 * head_dim * shard.num_attention_heads / model.flops_per_s
    tail_s = layers * model.tail_weight * model.num_sms * 4 * head_dim * 64 / model.flops_per_s
    element_s = layers * 2 * head_dim / model.io_bytes_per_s
    new_token_s = 2 * shard.num_attention_heads * element_s
    return layers * model.launch_s, pair_s, tail_s, new_token_s, 2 * shard.num_kv_heads * element_s
