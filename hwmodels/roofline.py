"""Step prices from the roofline: the coarsest and fastest of the cost models.

Each operator takes `max(FLOPs / compute rate, bytes / memory rate)`, operators follow one another,
and every step adds one host overhead. Not modelled: kernel launches and wave quantisation, unequal
lengths within a batch, L2 hits, overlap of collectives with compute, sampling.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from mypy_extensions import mypyc_attr

from hwmodels.collectives import all_gather_s, all_reduce_s, check_fits_node
from hwmodels.device import DeviceSpec
from hwmodels.model_shape import ModelShape
from hwmodels.roofline_ledger import RooflineLedger
from hwmodels.work import (
    Work,
    all_reduce_bytes,
    attention_bytes_per_new_token,
    attention_flops_per_pair,
    layer_matmuls,
    logits_matmul,
    num_all_reduces,
    small_ops_bytes,
)
from sim.interfaces import CostLedger, CostModel, DecodeBatchView, FloatArray, PrefillChunk
from sim.step_ends import StepEnds

_MAX_SCALAR_STEPS = 96
"""Runs up to this length are priced by a Python loop. In a tight loop arrays win from about 28
steps on, but in the middle of a simulation, with cold caches, the loop is 5 % faster overall."""


class TokenCost(NamedTuple):
    """What follows from a number of tokens alone, whatever their contexts."""

    total_s: float
    gemm_s: float
    small_ops_s: float
    collective_s: float
    flops: int
    hbm_bytes: int


@mypyc_attr(allow_interpreted_subclasses=True)
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

    Attributes (of one GPU):
        context_token_s: seconds per context token that a decode reads.
        context_bytes: bytes per context token.
        context_byte_s: seconds to read the bytes of a context token.
        pair_flops, pair_s: FLOPs and seconds per pair of query and context token; `half_pair_s`.
        new_token_bytes, new_token_s: bytes and seconds per new token besides its context.
        chunk_token_bytes, chunk_token_s: bytes and seconds to move per prefilled token, its own KV
            read back included.
        byte_s: seconds per byte of memory traffic.
        overhead_s: host time per step; `overhead_request_s` per request of the step.
        decode_s: seconds of a new token and of the host per decode.
        layers_s, logits_s: times per number of tokens or sampled positions priced so far, seconds.
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
        self.byte_s = 1.0 / device.attainable_hbm_bytes_per_s
        self.overhead_s = device.step_overhead_s
        self.overhead_request_s = device.step_overhead_request_s
        self.pair_flops = attention_flops_per_pair(shard)
        self.pair_s = self.pair_flops * self._flop_s
        self.context_bytes = shard.kv_bytes_per_token
        self.context_token_s = max(self.pair_s, self.context_bytes * self.byte_s)
        self.new_token_bytes = attention_bytes_per_new_token(shard)
        self.chunk_token_bytes = self.context_bytes + self.new_token_bytes
        self.new_token_s = self.new_token_bytes * self.byte_s
        self.decode_s = self.new_token_s + self.overhead_request_s
        self.half_pair_s = 0.5 * self.pair_s
        self.chunk_token_s = self.chunk_token_bytes * self.byte_s
        self.context_byte_s = self.context_bytes * self.byte_s
        self._small_bytes = small_ops_bytes(shard, 1)
        self._layer_steps = list(zip(layer_matmuls(shard, 1), layer_matmuls(shard, 2), strict=True))
        self._decode_constant_s: dict[int, float] = {}
        self.layers_s: dict[int, float] = {}
        self.logits_s: dict[int, float] = {}
        self._layers: dict[int, TokenCost] = {}
        self._logits: dict[int, TokenCost] = {}

    def decode_step_s(self, batch: DecodeBatchView) -> float:
        """Duration of the next decode-only step, seconds."""
        try:
            constant_s = self._decode_constant_s[batch.num_requests]
        except KeyError:
            constant_s = self._price_decode(batch.num_requests)
        return batch.context_tokens * self.context_token_s + constant_s

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
        durations_s *= self.context_token_s
        durations_s += constant_s
        return durations_s

    def write_run_ends(
        self, batch: DecodeBatchView, num_steps: int, start_s: float, ends: StepEnds, at: int
    ) -> None:
        """Write the ends of decode-only steps; short runs without arrays."""
        if num_steps > _MAX_SCALAR_STEPS:
            super().write_run_ends(batch, num_steps, start_s, ends, at)
            return
        num_requests = batch.num_requests
        try:
            constant_s = self._decode_constant_s[num_requests]
        except KeyError:
            constant_s = self._price_decode(num_requests)
        slope_s, view = self.context_token_s, ends.view
        end_s, context_tokens = start_s, batch.context_tokens
        for entry in range(at, at + num_steps):
            end_s += context_tokens * slope_s + constant_s
            view[entry] = end_s
            context_tokens += num_requests

    def mixed_step_s(self, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]) -> float:
        """Duration of the next step with decodes and prefill chunks, seconds."""
        return self.open_ledger().mixed_step_s(batch, chunks)

    def open_ledger(self) -> CostLedger:
        """An empty ledger for one instance."""
        ledger = RooflineLedger(self)
        ledger.write_chunk_ends = ledger.price_chunks
        return ledger

    def tokens_s(self, num_tokens: int, num_sampled: int) -> float:
        """Time of all layers and of the logits, attention aside, seconds."""
        return self.layers_cost(num_tokens).total_s + self.logits_cost(num_sampled).total_s

    def constant_s(self, num_tokens: int, num_sampled: int, num_decodes: int) -> float:
        """What a step takes besides reading contexts and prefill attention, seconds."""
        tokens_s = self.tokens_s(num_tokens, num_sampled)
        return self.overhead_s + tokens_s + num_decodes * self.decode_s

    def _price_decode(self, num_requests: int) -> float:
        constant_s = self.constant_s(num_requests, num_requests, num_requests)
        self._decode_constant_s[num_requests] = constant_s
        return constant_s

    def layers_cost(self, num_tokens: int) -> TokenCost:
        """Cost of all layers for `num_tokens` tokens, attention aside."""
        return self._layers.get(num_tokens) or self._price_layers(num_tokens)

    def logits_cost(self, num_sampled: int) -> TokenCost:
        """Cost of the logits of `num_sampled` positions."""
        return self._logits.get(num_sampled) or self._price_logits(num_sampled)

    def _price_layers(self, num_tokens: int) -> TokenCost:
        shard = self.shard
        works = self._layer_works(num_tokens)
        layer_s = 0.0
        for work in works:
            layer_s += self._bound_s(work)
        gemm_s = shard.num_layers * layer_s
        small_bytes = num_tokens * self._small_bytes
        small_ops_s = small_bytes * self.byte_s
        message_bytes = all_reduce_bytes(shard, num_tokens)
        reduce_s = all_reduce_s(self.device, message_bytes, self.tensor_parallel)
        collective_s = num_all_reduces(shard) * reduce_s
        cost = TokenCost(
            total_s=gemm_s + small_ops_s + collective_s,
            gemm_s=gemm_s,
            small_ops_s=small_ops_s,
            collective_s=collective_s,
            flops=shard.num_layers * sum([work.flops for work in works]),
            hbm_bytes=shard.num_layers * sum([work.hbm_bytes for work in works]) + small_bytes,
        )
        self._layers[num_tokens] = cost
        self.layers_s[num_tokens] = cost.total_s
        return cost

    def _layer_works(self, num_tokens: int) -> list[Work]:
        """Matrix products of one layer; those of a dense layer are linear in the tokens."""
        if self.shard.num_experts:
            return layer_matmuls(self.shard, num_tokens)
        more = num_tokens - 1
        return [
            Work(one.flops * num_tokens, one.hbm_bytes + more * (two.hbm_bytes - one.hbm_bytes))
            for one, two in self._layer_steps
        ]

    def _price_logits(self, num_sampled: int) -> TokenCost:
        work = logits_matmul(self.shard, num_sampled)
        gemm_s = self._bound_s(work)
        part_bytes = num_sampled * self.shard.vocab_size * self.shard.dtype_bytes
        num_gpus = self.tensor_parallel if num_sampled else 1
        gather_s = all_gather_s(self.device, part_bytes, num_gpus)
        cost = TokenCost(gemm_s + gather_s, gemm_s, 0.0, gather_s, work.flops, work.hbm_bytes)
        self._logits[num_sampled] = cost
        self.logits_s[num_sampled] = cost.total_s
        return cost

    def _bound_s(self, work: Work) -> float:
        return max(work.flops * self._flop_s, work.hbm_bytes * self.byte_s)
