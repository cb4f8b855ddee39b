"""How many KV blocks fit beside weights, activations and the CUDA runtime.

Follows what vLLM measures at start-up: it runs one step at the largest size and gives the KV cache
what remains of `gpu_memory_utilization` of the device. Not modelled: CUDA graph pools, which vLLM
before 0.14 takes from outside that share, draft models, adapters.
"""

from collections.abc import Callable
from dataclasses import dataclass

from hwmodels.collectives import MAX_GPUS_PER_NODE, check_fits_node
from hwmodels.device import DeviceSpec
from hwmodels.model_shape import ModelShape
from hwmodels.strict_json import shown
from sim.errors import CapacityError, ConfigError
from sim.units import GIB, MIB

SAMPLER_BYTES_PER_LOGIT = 39
"""Peak memory of sampling per request and vocabulary entry: logits in 16 and 32 bits, sorted copy
with 64-bit indices, probabilities.

Source: "PyTorch activation peak memory" in public vLLM 0.7 logs at 256 requests: 1.19 GiB at a
vocabulary of 128,256 (Llama-3-8B) and 1.40 GiB at 151,936 (Qwen3-8B) are 38.9 and 38.6 bytes."""

FORWARD_SLACK_RATIO = 1.1
"""Peak of a forward pass over the tensors counted in `activation_peak_bytes`.

Source: the same kind of log for a 1.5B Qwen2.5 model at 32,768 tokens: 2.02 against 1.83 GiB."""

COLLECTIVE_BUFFER_BYTES = 256 * MIB
"""NCCL channels and custom all-reduce buffers of a GPU in a tensor-parallel group.

Source: "non_torch_memory" of 0.20-0.25 GiB in public vLLM 0.7 logs of 2 to 4 GPUs, against
0.06-0.12 GiB of one GPU."""

MAX_COUNT = 10**9
"""Largest number of tokens or requests of a step and of tokens of a block."""

_MIN_BLOCKS = 2
"""An engine sets one block aside as the null block."""


@dataclass(frozen=True, slots=True)
class KvCapacity:
    """KV cache of one instance and the terms it follows from, each for one GPU of its group.

    Attributes:
        tensor_parallel: GPUs of the instance.
        hbm_capacity_bytes: memory of the device.
        budget_bytes: share of it that the engine may use.
        weight_bytes: weights of this GPU's part of the model.
        activation_bytes: peak of activations and sampling at the largest step.
        cuda_context_bytes: CUDA context and library workspaces.
        collective_buffer_bytes: buffers for collectives; 0 for one GPU.
        kv_bytes: what remains for the KV cache.
        block_bytes: KV bytes of one block.
        block_tokens: tokens of one block.
        executor_bytes: graphs or staging of the executor.
    """

    tensor_parallel: int
    hbm_capacity_bytes: int
    budget_bytes: int
    weight_bytes: int
    activation_bytes: int
    cuda_context_bytes: int
    collective_buffer_bytes: int
    kv_bytes: int
    block_bytes: int
    block_tokens: int
    executor_bytes: int = 0

    @property
    def num_blocks(self) -> int:
        """KV blocks of the instance, the null block included (vLLM's `num_gpu_blocks`)."""
        return max(0, self.kv_bytes // self.block_bytes)

    @property
    def num_tokens(self) -> int:
        """Tokens whose KV fits (vLLM's "GPU KV cache size")."""
        return self.num_blocks * self.block_tokens

    def summary(self) -> str:
        """One line with every term in GiB."""
        executor = f" - executor {self.executor_bytes / GIB:.2f}" if self.executor_bytes else ""
        return (
            f"{self.num_blocks:,} KV blocks of {self.block_tokens} tokens: "
            f"{self.budget_bytes / GIB:.2f} GiB usable of {self.hbm_capacity_bytes / GIB:.2f}"
            f" - weights {self.weight_bytes / GIB:.2f}"
            f" - activations {self.activation_bytes / GIB:.2f}"
            f" - CUDA context {self.cuda_context_bytes / GIB:.2f}"
            f" - collective buffers {self.collective_buffer_bytes / GIB:.2f}{executor}"
            f" = {self.kv_bytes / GIB:.2f} GiB per GPU"
        )


def activation_peak_bytes(
    shard: ModelShape, vocab_size: int, max_num_batched_tokens: int, max_num_seqs: int
) -> int:
    """Peak memory besides weights and KV in the largest step of one GPU, bytes.

    The larger of the forward pass (residual and layer input, plus the widest point of attention,
    MLP or experts) and sampling over the whole vocabulary.

    Args:
        shard: the GPU's part of the model.
        vocab_size: vocabulary of the whole model: logits are gathered before sampling.
        max_num_batched_tokens: tokens of the largest step.
        max_num_seqs: most requests sampled in one step.
    """
    attention = 2 * (shard.query_size + shard.kv_size)
    mlp_matrices = shard.mlp_up_matrices + 1
    mlp = mlp_matrices * (shard.intermediate_size + shard.shared_expert_intermediate_size)
    expert = mlp_matrices * shard.moe_intermediate_size + shard.hidden_size
    widest = max(attention, mlp + shard.experts_per_token * expert)
    elements = max_num_batched_tokens * (2 * shard.hidden_size + widest)
    forward_bytes = int(elements * shard.dtype_bytes * FORWARD_SLACK_RATIO)
    num_sampled = min(max_num_seqs, max_num_batched_tokens)
    return max(forward_bytes, num_sampled * vocab_size * SAMPLER_BYTES_PER_LOGIT)


def kv_capacity(
    device: DeviceSpec,
    shape: ModelShape,
    *,
    tensor_parallel: int = 1,
    gpu_memory_utilization: float = 0.9,
    max_num_batched_tokens: int = 2048,
    max_num_seqs: int = 256,
    block_tokens: int = 16,
) -> KvCapacity:
    """KV blocks that one instance of the model holds, with every term of the sum.

    Args:
        device: the GPU.
        shape: the whole model.
        tensor_parallel: GPUs of the instance.
        gpu_memory_utilization: share of the device memory the engine may use, in (0, 1].
        max_num_batched_tokens: tokens of the largest step.
        max_num_seqs: most requests in one step.
        block_tokens: tokens of a KV block.

    Raises:
        ConfigError: an argument is out of range, or the model cannot be split that way.
        CapacityError: the model does not fit; says what is missing and which degree would fit.
    """
    _check_arguments(gpu_memory_utilization, max_num_batched_tokens, max_num_seqs, block_tokens)
    sizes = (gpu_memory_utilization, max_num_batched_tokens, max_num_seqs, block_tokens)
    check_fits_node(tensor_parallel)
    capacity = _capacity(device, shape, tensor_parallel, *sizes)
    if capacity.num_blocks >= _MIN_BLOCKS:
        return capacity
    raise _does_not_fit(
        device,
        shape,
        tensor_parallel,
        missing_bytes=_MIN_BLOCKS * capacity.block_bytes - capacity.kv_bytes,
        terms=capacity.summary(),
        fits=lambda degree: _capacity(device, shape, degree, *sizes).num_blocks >= _MIN_BLOCKS,
    )


def check_weights_fit(
    device: DeviceSpec,
    shape: ModelShape,
    tensor_parallel: int = 1,
    gpu_memory_utilization: float = 0.9,
) -> None:
    """Check that the weights alone fit, for runs whose number of KV blocks is given.

    Args:
        device: the GPU.
        shape: the whole model.
        tensor_parallel: GPUs of the instance.
        gpu_memory_utilization: share of the device memory the engine may use, in (0, 1].

    Raises:
        ConfigError: an argument is out of range, or the model cannot be split that way.
        CapacityError: the weights do not fit; says what is missing and which degree would fit.
    """
    _check_utilization(gpu_memory_utilization)
    check_fits_node(tensor_parallel)
    budget_bytes = int(device.hbm_capacity_bytes * gpu_memory_utilization)
    weight_bytes = shape.sharded(tensor_parallel).weight_bytes
    if weight_bytes <= budget_bytes:
        return
    raise _does_not_fit(
        device,
        shape,
        tensor_parallel,
        missing_bytes=weight_bytes - budget_bytes,
        terms=(
            f"{budget_bytes / GIB:.2f} GiB usable of {device.hbm_capacity_bytes / GIB:.2f}"
            f" - weights {weight_bytes / GIB:.2f}"
        ),
        fits=lambda degree: shape.sharded(degree).weight_bytes <= budget_bytes,
    )


def _does_not_fit(
    device: DeviceSpec,
    shape: ModelShape,
    tensor_parallel: int,
    *,
    missing_bytes: int,
    terms: str,
    fits: Callable[[int], bool],
) -> CapacityError:
    """The error of a model that does not fit; `fits` tells whether it would with a degree."""
    larger = [
        degree
        for degree in shape.tensor_parallel_degrees
        if degree > tensor_parallel and fits(degree)
    ]
    hint = (
        f"cluster.tensor_parallel={larger[0]} would fit"
        if larger
        else f"no cluster.tensor_parallel up to {MAX_GPUS_PER_NODE} fits"
    )
    return CapacityError(
        f"model {shape.name} does not fit {device.name} with "
        f"cluster.tensor_parallel={tensor_parallel}: "
        f"{missing_bytes / GIB:.2f} GiB missing per GPU ({terms}); {hint}"
    )


def _capacity(
    device: DeviceSpec,
    shape: ModelShape,
    tensor_parallel: int,
    gpu_memory_utilization: float,
    max_num_batched_tokens: int,
    max_num_seqs: int,
    block_tokens: int,
) -> KvCapacity:
    shard = shape.sharded(tensor_parallel)
    budget_bytes = int(device.hbm_capacity_bytes * gpu_memory_utilization)
    activation_bytes = activation_peak_bytes(
        shard, shape.vocab_size, max_num_batched_tokens, max_num_seqs
    )
    buffer_bytes = COLLECTIVE_BUFFER_BYTES if tensor_parallel > 1 else 0
    taken_bytes = shard.weight_bytes + activation_bytes + device.cuda_context_bytes + buffer_bytes
    return KvCapacity(
        tensor_parallel=tensor_parallel,
        hbm_capacity_bytes=device.hbm_capacity_bytes,
        budget_bytes=budget_bytes,
        weight_bytes=shard.weight_bytes,
        activation_bytes=activation_bytes,
        cuda_context_bytes=device.cuda_context_bytes,
        collective_buffer_bytes=buffer_bytes,
        kv_bytes=budget_bytes - taken_bytes,
        block_bytes=block_tokens * shard.kv_bytes_per_token,
        block_tokens=block_tokens,
    )


def _check_arguments(
    gpu_memory_utilization: float,
    max_num_batched_tokens: int,
    max_num_seqs: int,
    block_tokens: int,
) -> None:
    _check_utilization(gpu_memory_utilization)
    counts = {
        "max_num_batched_tokens": max_num_batched_tokens,
        "max_num_seqs": max_num_seqs,
        "block_tokens": block_tokens,
    }
    for key, count in counts.items():
        if count < 1:
            raise ConfigError(f"{key} must be at least 1, found {shown(count)}")
        if count > MAX_COUNT:
            raise ConfigError(f"{key} must be at most {MAX_COUNT:,}, found {shown(count)}")


def _check_utilization(gpu_memory_utilization: float) -> None:
    if not 0 < gpu_memory_utilization <= 1:
        raise ConfigError(
            f"gpu_memory_utilization must be above 0 and at most 1, found {gpu_memory_utilization}"
        )
