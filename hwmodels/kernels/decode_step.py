"""Time of a whole decode step of one instance on calibrated kernels, by term.

Kernels follow one another; the host adds its time once. Not modelled: prefill chunks in the step,
overlap of collectives with compute, batches padded to the sizes of CUDA graphs, L2 hits.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hwmodels.kernels.arrays import Numbers
from hwmodels.model_shape import ModelShape
from hwmodels.work import all_reduce_bytes, num_all_reduces, small_ops_bytes
from sim.errors import ConfigError

if TYPE_CHECKING:
    from hwmodels.device import DeviceSpec

_HOST_BASE_S = 0.48e-3
_HOST_REQUEST_S = 0.019e-3
"""Host time per step that grows with the batch: the fit that replaces a constant 1 ms.

Source: two alternative fits to whole steps of vLLM on A100 and H100; never add both."""

HOST_OVERHEADS = ("constant", "per_request")
ALL_REDUCE_MODES = ("cuda_graph", "nccl")


@dataclass(frozen=True, slots=True)
class DecodeStepTime:
    """Seconds of a decode step by term.

    Attributes:
        gemm_s: matrix products of all layers (routed experts included) and the logits.
        attention_s: decode attention of all layers.
        small_ops_s: norms, rotary positions, activations, residuals and sampling.
        collective_s: all-reduces and the all-gather of logits.
        host_s: time of the host that the GPU waits for.
    """

    gemm_s: float
    attention_s: float
    small_ops_s: float
    collective_s: float
    host_s: float

    @property
    def total_s(self) -> float:
        """Seconds of the step."""
        return sum(
            (self.gemm_s, self.attention_s, self.small_ops_s, self.collective_s, self.host_s)
        )


def check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Check a choice by name.

    Raises:
        ConfigError: it is none of those allowed.
    """
    if value not in allowed:
        raise ConfigError(f"{name} must be {' or '.join(allowed)}, found {value!r}")


def layer_products(shape: ModelShape) -> list[tuple[int, int]]:
    """Width n and depth k of the dense products of a layer, one entry per kernel.

    Same kernels in the same order as `hwmodels.work.layer_matmuls`, routed experts left out.
    """
    hidden = shape.hidden_size
    products = [(shape.query_size + 2 * shape.kv_size, hidden), (hidden, shape.query_size)]
    for width in (shape.intermediate_size, shape.shared_expert_intermediate_size):
        if width:
            products += [(shape.mlp_up_matrices * width, hidden), (hidden, width)]
    if shape.num_experts:
        products.append((shape.num_experts, hidden))
    return products


def decode_step_time(
    device: "DeviceSpec",
    shape: ModelShape,
    tensor_parallel: int,
    context_tokens: Numbers,
    host_overhead: str = "constant",
    all_reduce_mode: str = "cuda_graph",
) -> DecodeStepTime:
    """Time of one decode step of a batch.

    Args:
        device: the GPU; needs calibrated kernels.
        shape: the whole model.
        tensor_parallel: GPUs of the instance, inside one node.
        context_tokens: context length of each request, shape (requests,).
        host_overhead: "constant" (the device's `step_overhead_s`) or "per_request" (0.48 ms plus
            0.019 ms per request).
        all_reduce_mode: "cuda_graph" (custom all-reduce) or "nccl".

    Raises:
        ConfigError: the device lacks a kernel, the model does not split, or a length is below 1.
    """
    from hwmodels.collectives import check_fits_node

    check_choice("host_overhead", host_overhead, HOST_OVERHEADS)
    check_fits_node(tensor_parallel)
    shard = shape.sharded(tensor_parallel)
    attention_s = device.decode_attention_time_s(
        context_tokens, shard.num_attention_heads, shard.num_kv_heads, shard.head_dim
    )
    batch_size = np.size(context_tokens)
    is_constant = host_overhead == "constant"
    host_s = device.step_overhead_s if is_constant else _HOST_BASE_S + _HOST_REQUEST_S * batch_size
    return DecodeStepTime(
        gemm_s=_gemm_s(device, shard, batch_size),
        attention_s=shard.num_layers * attention_s,
        small_ops_s=_small_ops_s(device, shape, shard, batch_size),
        collective_s=_collective_s(device, shard, tensor_parallel, batch_size, all_reduce_mode),
        host_s=host_s,
    )


def _gemm_s(device: "DeviceSpec", shard: ModelShape, batch_size: int) -> float:
    columns, inner = np.array(layer_products(shard)).T
    layer_s = float(np.sum(device.gemm_time_s(batch_size, columns, inner)))
    if shard.num_experts:
        layer_s += float(
            device.moe_time_s(
                batch_size,
                shard.hidden_size,
                shard.moe_intermediate_size,
                shard.experts_per_token,
                shard.num_experts,
            )
        )
    logits_s = float(device.gemm_time_s(batch_size, shard.vocab_size, shard.hidden_size))
    return shard.num_layers * layer_s + logits_s


def _small_ops_s(
    device: "DeviceSpec", shape: ModelShape, shard: ModelShape, batch_size: int
) -> float:
    """Layers on this GPU's part; sampling over the whole vocabulary, which every GPU gathers."""
    model = device.kernel("small_ops")
    token_bytes = small_ops_bytes(shard, 1) / shard.num_layers
    layers_s = model.time_s(batch_size, token_bytes, shard.num_layers)
    return float(layers_s + model.sample_s(batch_size, shape.vocab_size))


def _collective_s(
    device: "DeviceSpec", shard: ModelShape, num_gpus: int, batch_size: int, mode: str
) -> float:
    """Two all-reduces per layer, one for the embedding, and an all-gather of the logits."""
    check_choice("all_reduce_mode", mode, ALL_REDUCE_MODES)
    if num_gpus == 1:
        return 0.0
    from hwmodels.collectives import all_gather_s

    reduce_s = float(device.allreduce_time_s(all_reduce_bytes(shard, batch_size), num_gpus, mode))
    part_bytes = batch_size * shard.vocab_size * shard.dtype_bytes
    return num_all_reduces(shard) * reduce_s + all_gather_s(device, part_bytes, num_gpus)
