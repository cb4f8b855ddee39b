"""Step prices from kernels that were fitted to measurements of the very GPU.

Kernels of a step follow one another, and the host adds its time once. A decode step costs what
`hwmodels.kernels.decode_step` says of the same batch, less what shared prefixes save in L2 or in
the kernel. Not modelled: overlap of collectives with compute, batches padded to the sizes of CUDA
graphs, hits of prefill attention in L2 beyond those of its fit.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from mypy_extensions import mypyc_attr

from hwmodels.attention.build import attention_pricer, kernels_needed
from hwmodels.attention.choice import KernelChoice
from hwmodels.calibrated_ledger import CalibratedLedger
from hwmodels.collectives import all_gather_s, check_fits_node
from hwmodels.device import DeviceSpec
from hwmodels.kernels.decode_step import layer_products
from hwmodels.model_shape import ModelShape
from hwmodels.roofline import RooflineCost
from hwmodels.roofline_ledger import IntArray
from hwmodels.work import all_reduce_bytes, num_all_reduces, small_ops_bytes
from sim.interfaces import CostLedger, CostModel, DecodeBatchView, FloatArray, PrefillChunk
from sim.step_ends import StepEnds

_BLOCK = 128
"""Numbers of tokens priced together, at the first question about one of them."""

DEFAULT_BLOCK_TOKENS = 16


class TokenTimes(NamedTuple):
    """What follows from the tokens of a step, whatever their contexts, seconds."""

    gemm_s: float
    small_ops_s: float
    collective_s: float

    @property
    def total_s(self) -> float:
        """Sum of the terms."""
        return self.gemm_s + self.small_ops_s + self.collective_s


@mypyc_attr(allow_interpreted_subclasses=True)
class CalibratedCost(CostModel):
    """Prices the steps of one instance on `tensor_parallel` GPUs.

    Args:
        device: the GPU; needs calibrated kernels.
        shape: the whole model.
        tensor_parallel: GPUs of the instance, inside one node.
        kernel: attention kernel.
        uses_l2: whether requests that share prefixes hit in L2.
        block_tokens: tokens of a KV block.

    Raises:
        ConfigError: the device lacks a kernel that the model needs, or the model cannot be split
            over that many GPUs.

    Attributes:
        roofline: counts FLOPs and bytes.
        shard: the part of the model that one GPU holds.
        uses_l2: whether hits in L2 decide about prices.
        attention: prices the attention of all layers.
        uses_prefix_tree: whether prices depend on what running requests share.
        overhead_s: host time per step; `overhead_request_s` per request of the step.
        layers_s, logits_s: times per number of tokens or sampled positions priced so far, seconds.
    """

    def __init__(
        self,
        device: DeviceSpec,
        shape: ModelShape,
        tensor_parallel: int = 1,
        *,
        kernel: KernelChoice | None = None,
        uses_l2: bool = False,
        block_tokens: int = DEFAULT_BLOCK_TOKENS,
    ) -> None:
        check_fits_node(tensor_parallel)
        self.device = device
        self.shape = shape
        self.shard = shape.sharded(tensor_parallel)
        self.tensor_parallel = tensor_parallel
        self.kernel = kernel or KernelChoice()
        self.uses_l2 = uses_l2 and self.kernel.name != "packed"
        self.roofline = RooflineCost(device, shape, tensor_parallel)
        self.attention = attention_pricer(
            device, self.shard, self.kernel, uses_l2=uses_l2, block_tokens=block_tokens
        )
        self.uses_prefix_tree = self.attention.uses_tree
        self._small_ops = device.kernel("small_ops")
        self._write_run_ends = self.attention.write_run_ends
        self.overhead_s = device.step_overhead_s
        self.overhead_request_s = device.step_overhead_request_s
        self._decode_constant_s: dict[int, float] = {}
        self._layers: dict[int, TokenTimes] = {}
        self._logits: dict[int, TokenTimes] = {}
        self.layers_s: dict[int, float] = {}
        self.logits_s: dict[int, float] = {}
        self.tokens_s(1, 1)  # a kernel that is missing must be told now

    def host_s(self, num_requests: IntArray) -> FloatArray:
        """Host time of steps with so many requests, seconds."""
        times_s = self.overhead_s + num_requests * self.overhead_request_s
        return np.asarray(times_s, dtype=np.float64)

    def decode_step_s(self, batch: DecodeBatchView) -> float:
        """Duration of the next decode-only step, seconds."""
        size = batch.num_requests
        constant_s = self._decode_constant_s.get(size) or self._price_decode(size)
        attention_s = self.attention.step_s(
            size,
            batch.context_tokens,
            batch.context_tokens_squared,
            batch.max_context_tokens,
            batch.tree,
        )
        return attention_s + constant_s

    def decode_run_s(self, batch: DecodeBatchView, num_steps: int) -> FloatArray:
        """Durations of the next `num_steps` decode-only steps, seconds. Shape (num_steps,)."""
        size, total, longest = batch.num_requests, batch.context_tokens, batch.max_context_tokens
        squares = batch.context_tokens_squared
        constant_s = self._decode_constant_s.get(size) or self._price_decode(size)
        durations_s = np.empty(num_steps)
        for step in range(num_steps):
            attention_s = self.attention.step_s(size, total, squares, longest, batch.tree)
            durations_s[step] = attention_s + constant_s
            squares += 2 * total + size
            total += size
            longest += 1
        return durations_s

    def write_run_ends(
        self, batch: DecodeBatchView, num_steps: int, start_s: float, ends: StepEnds, at: int
    ) -> None:
        """Write the ends of decode-only steps."""
        size = batch.num_requests
        constant_s = self._decode_constant_s.get(size) or self._price_decode(size)
        self._write_run_ends(batch, num_steps, constant_s, start_s, ends.view, at)

    def _price_decode(self, num_requests: int) -> float:
        host_s = self.overhead_s + num_requests * self.overhead_request_s
        constant_s = host_s + self.tokens_s(num_requests, num_requests)
        self._decode_constant_s[num_requests] = constant_s
        return constant_s

    def mixed_step_s(self, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]) -> float:
        """Duration of the next step with decodes and prefill chunks, seconds."""
        if not chunks:
            return self.decode_step_s(batch)
        return self.open_ledger().mixed_step_s(batch, chunks)

    @property
    def kernels_in_use(self) -> list[str]:
        """Kernels that price the steps, by their fields of `KernelModels`."""
        names = ["gemm", "small_ops", *kernels_needed(self.kernel, uses_l2=self.uses_l2)]
        names += ["moe"] if self.shard.num_experts else []
        return names + (["all_reduce"] if self.tensor_parallel > 1 else [])

    def open_ledger(self) -> CostLedger:
        """An empty ledger for one instance."""
        return CalibratedLedger(self)

    # -- by kind of kernel -----------------------------------------------------------------------

    def tokens_s(self, num_tokens: int, num_sampled: int) -> float:
        """Time of a step without attention and host, seconds."""
        layers_s = self.layers_s[num_tokens] = self.layer_times(num_tokens).total_s
        logits_s = self.logits_s[num_sampled] = self.logits_times(num_sampled).total_s
        return layers_s + logits_s

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
