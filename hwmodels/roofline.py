"""Step prices from the roofline: the coarsest and fastest of the cost models.

Each operator takes `max(FLOPs / compute rate, bytes / memory rate)`, operators follow one another,
and every step adds one host overhead. Not modelled: kernel launches and wave quantisation, unequal
lengths within a batch, L2 hits, overlap of collectives with compute, sampling.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hwmodels.collectives import all_gather_s, all_reduce_s, check_fits_node
from hwmodels.device import DeviceSpec
from hwmodels.model_shape import ModelShape
from hwmodels.work import (
    Work,
    all_reduce_bytes,
    attention_bytes_per_new_token,
    attention_flops_per_pair,
    causal_pairs,
    layer_matmuls,
    logits_matmul,
    num_all_reduces,
    small_ops_bytes,
)
from sim.cost_totals import CostTotals
from sim.interfaces import CostModel, DecodeBatchView, FloatArray, PrefillChunk


class _TokenCost(NamedTuple):
    """What follows from a number of tokens alone, whatever their contexts."""

    total_s: float
    gemm_s: float
    small_ops_s: float
    collective_s: float
    flops: int
    hbm_bytes: int


class _DecodeTerms(NamedTuple):
    """What one decode-only step of B requests costs besides reading their contexts."""

    gemm_s: float
    small_ops_s: float
    collective_s: float
    attention_s: float
    flops: int
    hbm_bytes: int


class RooflineCost(CostModel):
    """Prices the steps of one instance on `tensor_parallel` GPUs.

    A decode step of B requests whose contexts sum to S1 takes `S1 * slope + constant(B)`. Both
    bounds of decode attention are proportional to S1, so the binding one is a constant of the
    instance and the slope needs no maximum per step. Constants are kept per number of requests and
    of tokens as they come up.

    Args:
        device: the GPU.
        shape: the whole model.
        tensor_parallel: GPUs of the instance, inside one node.

    Raises:
        ConfigError: the model cannot be split over that many GPUs.
    """

    uses_prefix_tree = False

    def __init__(self, device: DeviceSpec, shape: ModelShape, tensor_parallel: int = 1) -> None:
        check_fits_node(tensor_parallel)
        shard = shape.sharded(tensor_parallel)
        self.device = device
        self.shape = shape
        self.shard = shard
        self.tensor_parallel = tensor_parallel
        self._flop_s = 1.0 / device.attainable_flops_per_s
        self._byte_s = 1.0 / device.attainable_hbm_bytes_per_s
        self._overhead_s = device.step_overhead_s
        self._pair_flops = attention_flops_per_pair(shard)
        self._pair_s = self._pair_flops * self._flop_s
        self._context_bytes = shard.kv_bytes_per_token
        self._context_token_s = max(self._pair_s, self._context_bytes * self._byte_s)
        self._new_token_bytes = attention_bytes_per_new_token(shard)
        self._chunk_token_bytes = self._context_bytes + self._new_token_bytes
        self._new_token_s = self._new_token_bytes * self._byte_s
        self._decode_constant_s: dict[int, float] = {}
        self._decode_terms: dict[int, _DecodeTerms] = {}
        self._layers: dict[int, _TokenCost] = {}
        self._logits: dict[int, _TokenCost] = {}

    def decode_step_s(self, batch: DecodeBatchView) -> float:
        """Duration of the next decode-only step, seconds."""
        try:
            constant_s = self._decode_constant_s[batch.num_requests]
        except KeyError:
            constant_s = self._price_decode(batch.num_requests)
        return batch.context_tokens * self._context_token_s + constant_s

    def decode_run_s(self, batch: DecodeBatchView, num_steps: int) -> FloatArray:
        """Durations of the next `num_steps` decode-only steps, seconds.

        Same operations in the same order as `decode_step_s`: the context sums are whole numbers and
        exact, so that every entry equals the price of its step bit for bit.
        """
        num_requests = batch.num_requests
        try:
            constant_s = self._decode_constant_s[num_requests]
        except KeyError:
            constant_s = self._price_decode(num_requests)
        first_tokens = batch.context_tokens
        end_tokens = first_tokens + num_requests * num_steps
        durations_s = np.arange(first_tokens, end_tokens, num_requests, dtype=np.float64)
        durations_s *= self._context_token_s
        durations_s += constant_s
        return durations_s

    def mixed_step_s(self, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]) -> float:
        """Duration of the next step with decodes and prefill chunks, seconds."""
        num_requests = batch.num_requests
        num_tokens = num_sampled = num_requests
        prefill_s = 0.0
        for new_tokens, prefix_tokens, is_last in chunks:
            num_tokens += new_tokens
            num_sampled += is_last
            compute_s = causal_pairs(new_tokens, prefix_tokens) * self._pair_s
            own_bytes = new_tokens * self._chunk_token_bytes
            memory_s = (own_bytes + prefix_tokens * self._context_bytes) * self._byte_s
            prefill_s += compute_s if compute_s > memory_s else memory_s
        constant_s = self._constant_s(num_tokens, num_sampled, num_requests)
        return batch.context_tokens * self._context_token_s + constant_s + prefill_s

    def add_decode_costs(self, totals: CostTotals, batch: DecodeBatchView, num_steps: int) -> None:
        """Add the cost terms of `num_steps` decode-only steps; whole numbers exactly."""
        num_requests = batch.num_requests
        try:
            terms = self._decode_terms[num_requests]
        except KeyError:
            self._price_decode(num_requests)
            terms = self._decode_terms[num_requests]
        gemm_s, small_ops_s, collective_s, attention_s, flops, hbm_bytes = terms
        grown_tokens = num_requests * (num_steps * (num_steps - 1) // 2)
        context_tokens = num_steps * batch.context_tokens + grown_tokens
        context_s = context_tokens * self._context_token_s
        totals.gemm_s += num_steps * gemm_s
        totals.attention_decode_s += context_s + num_steps * attention_s
        totals.collective_s += num_steps * collective_s
        totals.small_ops_s += num_steps * small_ops_s
        totals.launch_s += num_steps * self._overhead_s
        totals.flops += num_steps * flops + context_tokens * self._pair_flops
        totals.hbm_bytes += num_steps * hbm_bytes + context_tokens * self._context_bytes

    def add_mixed_costs(
        self, totals: CostTotals, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]
    ) -> None:
        """Add the cost terms of one mixed step; whole numbers exactly."""
        num_requests = batch.num_requests
        context_tokens = batch.context_tokens
        num_tokens = num_sampled = num_requests
        pairs = context_tokens
        moved_bytes = context_tokens * self._context_bytes + num_requests * self._new_token_bytes
        for new_tokens, prefix_tokens, is_last in chunks:
            num_tokens += new_tokens
            num_sampled += is_last
            chunk_pairs = causal_pairs(new_tokens, prefix_tokens)
            own_bytes = new_tokens * self._chunk_token_bytes
            chunk_bytes = own_bytes + prefix_tokens * self._context_bytes
            compute_s, memory_s = chunk_pairs * self._pair_s, chunk_bytes * self._byte_s
            totals.attention_prefill_s += compute_s if compute_s > memory_s else memory_s
            pairs += chunk_pairs
            moved_bytes += chunk_bytes
        layers = self._layers.get(num_tokens) or self._price_layers(num_tokens)
        logits = self._logits.get(num_sampled) or self._price_logits(num_sampled)
        decode_s = context_tokens * self._context_token_s + num_requests * self._new_token_s
        totals.gemm_s += layers.gemm_s + logits.gemm_s
        totals.attention_decode_s += decode_s
        totals.collective_s += layers.collective_s + logits.collective_s
        totals.small_ops_s += layers.small_ops_s
        totals.launch_s += self._overhead_s
        totals.flops += layers.flops + logits.flops + pairs * self._pair_flops
        totals.hbm_bytes += layers.hbm_bytes + logits.hbm_bytes + moved_bytes

    def _constant_s(self, num_tokens: int, num_sampled: int, num_decodes: int) -> float:
        """What a step takes besides reading contexts and prefill attention, seconds."""
        layers = self._layers.get(num_tokens) or self._price_layers(num_tokens)
        logits = self._logits.get(num_sampled) or self._price_logits(num_sampled)
        tokens_s = layers.total_s + logits.total_s
        return self._overhead_s + tokens_s + num_decodes * self._new_token_s

    def _price_decode(self, num_requests: int) -> float:
        constant_s = self._constant_s(num_requests, num_requests, num_requests)
        layers, logits = self._layers[num_requests], self._logits[num_requests]
        self._decode_constant_s[num_requests] = constant_s
        self._decode_terms[num_requests] = _DecodeTerms(
            gemm_s=layers.gemm_s + logits.gemm_s,
            small_ops_s=layers.small_ops_s,
            collective_s=layers.collective_s + logits.collective_s,
            attention_s=num_requests * self._new_token_s,
            flops=layers.flops + logits.flops,
            hbm_bytes=layers.hbm_bytes + logits.hbm_bytes + num_requests * self._new_token_bytes,
        )
        return constant_s

    def _price_layers(self, num_tokens: int) -> _TokenCost:
        shard = self.shard
        works = layer_matmuls(shard, num_tokens)
        gemm_s = shard.num_layers * sum(self._bound_s(work) for work in works)
        small_bytes = small_ops_bytes(shard, num_tokens)
        small_ops_s = small_bytes * self._byte_s
        message_bytes = all_reduce_bytes(shard, num_tokens)
        reduce_s = all_reduce_s(self.device, message_bytes, self.tensor_parallel)
        collective_s = num_all_reduces(shard) * reduce_s
        cost = _TokenCost(
            total_s=gemm_s + small_ops_s + collective_s,
            gemm_s=gemm_s,
            small_ops_s=small_ops_s,
            collective_s=collective_s,
            flops=shard.num_layers * sum(work.flops for work in works),
            hbm_bytes=shard.num_layers * sum(work.hbm_bytes for work in works) + small_bytes,
        )
        self._layers[num_tokens] = cost
        return cost

    def _price_logits(self, num_sampled: int) -> _TokenCost:
        work = logits_matmul(self.shard, num_sampled)
        gemm_s = self._bound_s(work)
        part_bytes = num_sampled * self.shard.vocab_size * self.shard.dtype_bytes
        num_gpus = self.tensor_parallel if num_sampled else 1
        gather_s = all_gather_s(self.device, part_bytes, num_gpus)
        cost = _TokenCost(gemm_s + gather_s, gemm_s, 0.0, gather_s, work.flops, work.hbm_bytes)
        self._logits[num_sampled] = cost
        return cost

    def _bound_s(self, work: Work) -> float:
        return max(work.flops * self._flop_s, work.hbm_bytes * self._byte_s)
