"""The executor of a job on its engine: what it refuses, what it leaves, what its steps cost."""

from dataclasses import replace

from experiments.schema.job import JobConfig
from hwmodels.executors.executor import Executor, Fitting, KernelCost, Site
from hwmodels.memory import KvCapacity
from sim.engine_rules import BringsParts
from sim.errors import ConfigError


def fitted_executor(
    config: JobConfig,
    cost: KernelCost,
    *,
    capacity: KvCapacity | None,
    num_gpu_blocks: int,
    max_num_seqs: int,
    has_own_graph_memory: bool,
) -> Fitting:
    """The executor on the site that a job describes.

    Args:
        config: the job.
        cost: what steps take on the GPU and its host.
        capacity: where the KV blocks come from; None if their number was given.
        num_gpu_blocks: KV blocks before the executor takes its part.
        max_num_seqs: the engine's seats.
        has_own_graph_memory: whether the engine has set the memory of its graphs aside.

    Raises:
        ConfigError: an option is out of range or has no effect, or the engine does not go with it.
        CapacityError: what it reserves does not fit.
    """
    options = config.engine_options
    executor: Executor = config.executor.build()
    fitting = executor.fit(
        Site(
            cost=cost,
            kv_bytes=None if capacity is None else capacity.kv_bytes,
            num_gpu_blocks=num_gpu_blocks,
            block_tokens=options.block_tokens,
            max_num_seqs=max_num_seqs,
            max_model_len=options.max_model_len,
            has_own_graph_memory=has_own_graph_memory,
        )
    )
    name = config.executor.target.rpartition(".")[2]
    if fitting.needs_block_tables and issubclass(config.engine.load_class(), BringsParts):
        engine = config.engine.target.rpartition(".")[2]
        raise ConfigError(
            f"executor {name} follows the block tables of an engine, and engine {engine} keeps "
            "none; choose engine=vllm_v1"
        )
    if not fitting.shares_prefixes and options.prefix_caching:
        raise ConfigError(
            f"engine.prefix_caching=true has no effect: executor {name} shares nothing between "
            "requests; leave it out"
        )
    return fitting


def left_capacity(capacity: KvCapacity | None, fitting: Fitting) -> KvCapacity | None:
    """The terms of the KV memory with what the executor takes among them."""
    if capacity is None or not fitting.taken_bytes:
        return capacity
    return replace(
        capacity,
        kv_bytes=capacity.kv_bytes - fitting.taken_bytes,
        executor_bytes=fitting.taken_bytes,
    )
