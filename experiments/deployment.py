"""From a checked configuration to the cluster that `simulate()` takes."""

from dataclasses import dataclass, replace
from pathlib import Path

from experiments.chosen_device import chosen_device
from experiments.cost_model import cost_model
from experiments.disaggregation import decode_config, with_roles
from experiments.kv_tiers import tiers_of
from experiments.schema.cluster import RoleConfig
from experiments.schema.executor import fitted_executor, left_capacity
from experiments.schema.front_end import front_end_of, why_unhashed
from experiments.schema.job import JobConfig
from experiments.schema.scheduler import scheduler_of
from experiments.sglang_sizes import (
    chunked_prefill_size,
    max_running_requests,
    mem_fraction_static,
    sglang_capacity,
)
from hwmodels.device import DeviceSpec
from hwmodels.executors.executor import Fitting, KernelCost
from hwmodels.memory import KvCapacity, kv_capacity
from hwmodels.model_catalogue import load_model
from hwmodels.model_shape import ModelShape
from sim.cluster_spec import ClusterSpec
from sim.engine_rules import EngineRules
from sim.errors import CapacityError, ConfigError
from sim.interfaces import CostModel
from sim.sglang import Sglang
from sim.tiers.spec import TierSpec
from sim.units import GIB

LARGE_GPU_BYTES = 70 * GIB
"""From here on vLLM takes the larger defaults. Source: vLLM `EngineArgs._set_default_args`."""

DEFAULT_MEMORY_UTILIZATION = 0.9
"""Source: vLLM `CacheConfig.gpu_memory_utilization`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSizes:
    """Sizes of the engine, defaults filled in.

    Attributes:
        max_num_seqs: running requests at most.
        max_num_batched_tokens: token budget of a step.
        gpu_memory_utilization: share of the device memory; None if the KV blocks were given.
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    gpu_memory_utilization: float | None = DEFAULT_MEMORY_UTILIZATION


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A model on a cluster, ready to serve.

    Attributes:
        device: the GPU.
        shape: the whole model.
        sizes: the engine's sizes.
        capacity: where the KV blocks come from; None if their number was given.
        num_fitting_blocks: KV blocks that the whole memory of the GPU would hold; None unless
            their number was given.
        fidelity: how steps are priced, a name of `hardware.fidelity`.
        gpu_cost: what steps take on the GPU, before the executor.
        fitting: the executor, and the memory it reserves.
        spec: the cluster.
        decode: the instances that only decode, as if they were a cluster; None where there are
            none.
    """

    device: DeviceSpec
    shape: ModelShape
    sizes: EngineSizes
    capacity: KvCapacity | None
    num_fitting_blocks: int | None
    fidelity: str
    gpu_cost: KernelCost
    fitting: Fitting
    spec: ClusterSpec
    decode: "Deployment | None" = None


def default_sizes(device: DeviceSpec) -> EngineSizes:
    """What a vLLM server takes on this GPU.

    Source: vLLM `EngineArgs._set_default_args`, usage context of the API server.
    """
    is_large = device.hbm_capacity_bytes >= LARGE_GPU_BYTES
    if is_large and "a100" not in f"{device.title} {device.name}".lower():
        return EngineSizes(max_num_seqs=1024, max_num_batched_tokens=8192)
    return EngineSizes(max_num_seqs=256, max_num_batched_tokens=2048)


def engine_sizes(config: JobConfig, device: DeviceSpec) -> EngineSizes:
    """Sizes given, or the defaults; seats by default never exceed a token budget that was given."""
    options, sizes = config.engine_options, default_sizes(device)
    if options.max_num_batched_tokens is not None:
        budget = options.max_num_batched_tokens
        seats = min(sizes.max_num_seqs, budget)
        sizes = replace(sizes, max_num_seqs=seats, max_num_batched_tokens=budget)
    if options.max_num_seqs is not None:
        sizes = replace(sizes, max_num_seqs=options.max_num_seqs)
    if options.num_gpu_blocks is not None:
        return replace(sizes, gpu_memory_utilization=None)
    if options.gpu_memory_utilization is not None:
        return replace(sizes, gpu_memory_utilization=options.gpu_memory_utilization)
    return sizes


def sglang_sizes(config: JobConfig, device: DeviceSpec, shape: ModelShape) -> EngineSizes:
    """The same for an SGLang server.

    Raises:
        CapacityError: the model does not fit the GPU.
    """
    options, tensor_parallel = config.engine_options, config.cluster.tensor_parallel
    chunk = options.max_num_batched_tokens or chunked_prefill_size(device)
    share = options.gpu_memory_utilization or mem_fraction_static(device, chunk, tensor_parallel)
    kv_tokens = options.num_gpu_blocks
    if kv_tokens is None:
        kv_tokens = sglang_capacity(device, shape, tensor_parallel, share).num_tokens
    return EngineSizes(
        max_num_seqs=options.max_num_seqs or max_running_requests(shape, kv_tokens),
        max_num_batched_tokens=chunk,
        gpu_memory_utilization=share if options.num_gpu_blocks is None else None,
    )


def _is_sglang(config: JobConfig) -> bool:
    return issubclass(config.engine.load_class(), Sglang)


def build_deployment(config: JobConfig) -> Deployment:
    """Load profile and model, size the KV cache and build the policies.

    Policies keep state: a deployment serves one run.

    Raises:
        ConfigError: a value is out of range or does not fit the others.
        CapacityError: the model does not fit the GPU.
    """
    hardware, model = config.hardware, config.model
    device = chosen_device(hardware)
    shape = load_model(Path(model.path) if model.path else str(model.name))
    if model.max_context_tokens is not None:
        shape = replace(shape, max_context_tokens=model.max_context_tokens)
    is_sglang = _is_sglang(config)
    sizes = sglang_sizes(config, device, shape) if is_sglang else engine_sizes(config, device)
    cost = cost_model(config, device, shape)
    capacity = _capacity(config, device, shape, sizes)
    num_gpu_blocks = config.engine_options.num_gpu_blocks
    num_fitting_blocks = None
    if capacity is not None:
        num_gpu_blocks = capacity.num_blocks
    else:
        num_fitting_blocks = _num_fitting_blocks(config, device, shape, sizes)
    assert num_gpu_blocks is not None
    fitting = fitted_executor(
        config,
        cost,
        capacity=capacity,
        num_gpu_blocks=num_gpu_blocks,
        max_num_seqs=sizes.max_num_seqs,
        has_own_graph_memory=is_sglang,
    )
    sizes = replace(sizes, max_num_seqs=fitting.max_num_seqs)
    rules = config.engine.build(
        max_num_seqs=sizes.max_num_seqs, max_num_batched_tokens=sizes.max_num_batched_tokens
    )
    tiers = tiers_of(config, device, shape)
    spec = _cluster_spec(config, fitting.num_gpu_blocks, rules, fitting.cost, tiers)
    decode = None
    if config.roles is not None:
        decode = _decode_deployment(config, config.roles)
        spec = with_roles(spec, config.roles, device, shape, decode.spec)
    return Deployment(
        device=device,
        shape=shape,
        sizes=sizes,
        capacity=left_capacity(capacity, fitting),
        num_fitting_blocks=num_fitting_blocks,
        fidelity=hardware.fidelity,
        gpu_cost=cost,
        fitting=fitting,
        spec=spec,
        decode=decode,
    )


def _decode_deployment(config: JobConfig, roles: RoleConfig) -> Deployment:
    """The instances that only decode; what is wrong with them is not said of the others.

    Raises:
        ConfigError: sizes that do not fit each other.
        CapacityError: the model does not fit the GPU.
    """
    try:
        return build_deployment(decode_config(config, roles))
    except ConfigError as error:
        where = "decode instances (cluster.decode_*, else engine.*)"
        raise type(error)(f"{where}: {error}") from error


def _capacity(
    config: JobConfig, device: DeviceSpec, shape: ModelShape, sizes: EngineSizes
) -> KvCapacity | None:
    """KV cache from the memory of the GPU, None if its blocks are given."""
    if sizes.gpu_memory_utilization is None:
        return None
    return _capacity_at(sizes.gpu_memory_utilization, config, device, shape, sizes)


def _num_fitting_blocks(
    config: JobConfig, device: DeviceSpec, shape: ModelShape, sizes: EngineSizes
) -> int:
    """KV blocks that the whole memory of the GPU would hold.

    Raises:
        CapacityError: not even the weights fit.
    """
    shard = shape.sharded(config.cluster.tensor_parallel)
    if shard.weight_bytes + device.cuda_context_bytes > device.hbm_capacity_bytes:
        return _capacity_at(DEFAULT_MEMORY_UTILIZATION, config, device, shape, sizes).num_blocks
    try:
        return _capacity_at(1.0, config, device, shape, sizes).num_blocks
    except CapacityError:
        return 0


def _capacity_at(
    gpu_memory_utilization: float,
    config: JobConfig,
    device: DeviceSpec,
    shape: ModelShape,
    sizes: EngineSizes,
) -> KvCapacity:
    if _is_sglang(config):
        return sglang_capacity(
            device, shape, config.cluster.tensor_parallel, gpu_memory_utilization
        )
    return kv_capacity(
        device,
        shape,
        tensor_parallel=config.cluster.tensor_parallel,
        gpu_memory_utilization=gpu_memory_utilization,
        max_num_batched_tokens=sizes.max_num_batched_tokens,
        max_num_seqs=sizes.max_num_seqs,
        block_tokens=config.engine_options.block_tokens,
    )


def _cluster_spec(
    config: JobConfig,
    num_gpu_blocks: int,
    rules: EngineRules,
    cost: CostModel,
    tiers: TierSpec | None,
) -> ClusterSpec:
    options = config.engine_options
    hashes_prompts = not why_unhashed(config.engine, options.prefix_caching)
    for per_instance in (config.batching, config.eviction):
        per_instance.build()  # a constructor that refuses must do so before the trace is read
    spec = ClusterSpec(
        num_instances=config.cluster.num_instances,
        num_gpu_blocks=num_gpu_blocks,
        rules=rules,
        cost=cost,
        batching=lambda _instance: config.batching.build(),
        router=config.routing.build(),
        admission=config.admission.build(),
        eviction=config.eviction.build,
        block_tokens=options.block_tokens,
        prefix_caching=options.prefix_caching,
        macro_steps=options.macro_steps,
        max_model_len=options.max_model_len,
        view_delay_s=config.routing_options.view_delay_s,
        publish_period_s=config.routing_options.publish_period_s,
        assume_dispatches=config.routing_options.assume_dispatches,
        tie_shift=config.routing_options.tie_shift,
        front_end=front_end_of(config.frontend, hashes_prompts),
        scheduler=scheduler_of(config.scheduler),
        tiers=tiers,
        record_costs=config.output.steps,
        record_decisions=config.output.decisions,
        check=config.check,
    )
    spec.validate()
    return spec
