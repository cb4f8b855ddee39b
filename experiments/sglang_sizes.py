"""Sizes that an SGLang server takes where the user gives none, and the KV tokens that follow.

SGLang sets aside memory for activations and CUDA graphs by rules of thumb, and gives the KV cache
what the weights leave of the rest; nothing is measured at its start. Not modelled: pipeline and
data-parallel attention, draft models, which set aside more.

Source: SGLang `ServerArgs._handle_gpu_memory_settings`, `ModelRunner.profile_max_num_token`.
"""

from dataclasses import dataclass

from hwmodels.collectives import check_fits_node
from hwmodels.device import DeviceSpec
from hwmodels.memory import COLLECTIVE_BUFFER_BYTES, KvCapacity
from hwmodels.model_shape import ModelShape
from sim.errors import CapacityError
from sim.units import GIB, MIB


@dataclass(frozen=True, slots=True)
class _GpuClass:
    """Defaults of GPUs with less than `below_bytes` of memory.

    Attributes:
        below_bytes: memory that the class ends before.
        chunked_prefill_size: tokens of a prefill batch.
        graph_batch: largest batch with a CUDA graph on fewer than four GPUs.
        wide_graph_batch: the same on four or more.
    """

    below_bytes: float
    chunked_prefill_size: int
    graph_batch: int
    wide_graph_batch: int


_GPU_CLASSES = (
    _GpuClass(20 * GIB, 2_048, 8, 8),
    _GpuClass(35 * GIB, 2_048, 24, 80),
    _GpuClass(60 * GIB, 4_096, 32, 160),
    _GpuClass(160 * GIB, 8_192, 256, 512),
    _GpuClass(float("inf"), 16_384, 512, 512),
)

_LEAST_RESERVED_BYTES = 10 * GIB
"""Set aside at least on GPUs of more than 60 GiB."""

_FEWEST_SEATS, _MOST_SEATS, _SEATS_PER_CONTEXT = 2_048, 4_096, 512
"""Source: SGLang `ModelRunner.init_memory_pool`, `max_num_reqs`."""


def chunked_prefill_size(device: DeviceSpec) -> int:
    """Tokens of a prefill batch on this GPU."""
    return _class_of(device).chunked_prefill_size


def mem_fraction_static(device: DeviceSpec, prefill_tokens: int, tensor_parallel: int) -> float:
    """Share of the memory for weights and KV cache, rounded to three digits.

    Args:
        device: the GPU.
        prefill_tokens: tokens of a prefill batch.
        tensor_parallel: GPUs of the instance.
    """
    gpu = _class_of(device)
    graph_batch = gpu.graph_batch if tensor_parallel < 4 else gpu.wide_graph_batch
    reserved_mib = 512 + 1.5 * max(prefill_tokens, 2048) + 2 * graph_batch
    reserved_bytes = (reserved_mib + tensor_parallel / 8 * 1024) * MIB
    total_bytes = device.hbm_capacity_bytes
    if total_bytes > 60 * GIB:
        reserved_bytes = max(reserved_bytes, _LEAST_RESERVED_BYTES)
    return max(round((total_bytes - reserved_bytes) / total_bytes, 3), 0.001)


def max_running_requests(shape: ModelShape, kv_tokens: int) -> int:
    """Seats of an instance whose KV cache holds `kv_tokens` tokens."""
    contexts = kv_tokens / shape.max_context_tokens
    return min(max(int(contexts * _SEATS_PER_CONTEXT), _FEWEST_SEATS), _MOST_SEATS)


def sglang_capacity(
    device: DeviceSpec, shape: ModelShape, tensor_parallel: int, memory_fraction: float
) -> KvCapacity:
    """KV tokens of one instance: what the weights leave of `memory_fraction` of the free memory.

    The budget in the terms of the sum is that share and what was taken before the start.

    Raises:
        ConfigError: the model cannot be split that way.
        CapacityError: the weights do not fit.
    """
    check_fits_node(tensor_parallel)
    shard = shape.sharded(tensor_parallel)
    buffer_bytes = COLLECTIVE_BUFFER_BYTES if tensor_parallel > 1 else 0
    before_bytes = device.cuda_context_bytes + buffer_bytes
    static_bytes = int((device.hbm_capacity_bytes - before_bytes) * memory_fraction)
    capacity = KvCapacity(
        tensor_parallel=tensor_parallel,
        hbm_capacity_bytes=device.hbm_capacity_bytes,
        budget_bytes=static_bytes + before_bytes,
        weight_bytes=shard.weight_bytes,
        activation_bytes=0,
        cuda_context_bytes=device.cuda_context_bytes,
        collective_buffer_bytes=buffer_bytes,
        kv_bytes=static_bytes - shard.weight_bytes,
        block_bytes=shard.kv_bytes_per_token,
        block_tokens=1,
    )
    if capacity.num_blocks < 2:
        raise CapacityError(
            f"model {shape.name} does not fit {device.name} with "
            f"cluster.tensor_parallel={tensor_parallel} under engine=sglang "
            f"({capacity.summary()}); raise engine.gpu_memory_utilization or "
            "cluster.tensor_parallel, or lower engine.max_num_batched_tokens"
        )
    return capacity


def _class_of(device: DeviceSpec) -> _GpuClass:
    return next(gpu for gpu in _GPU_CLASSES if device.hbm_capacity_bytes < gpu.below_bytes)
