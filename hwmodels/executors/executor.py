"""What an executor is: something that turns the GPU time of a step into the step's duration."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from hwmodels.calibrated import CalibratedCost
from hwmodels.roofline import RooflineCost
from sim.errors import ConfigError
from sim.interfaces import CostModel

KernelCost = RooflineCost | CalibratedCost
"""Cost models of a GPU that an executor can wrap."""

REPLAY_IN_HOST_S = 10e-6
"""Graph replay that the fitted host time of a step contains, seconds.

The host time was fitted to vLLM servers with CUDA graphs (docs/cost_models.md): scheduling, input
preparation, sampling, and one replay. An executor takes this replay out and puts its own in.
Source: POLICIES 3 (10 us)."""

MAX_TIME_S = 1.0
"""Largest launch, replay, switch or commit time; beyond, a unit was mistaken."""


LAUNCHES_PER_LAYER_PARALLEL = 2
"""All-reduces of a layer. Source: POLICIES 3 (ours)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where an executor runs.

    Attributes:
        cost: what a step takes on the GPU and its host.
        kv_bytes: memory of one GPU for the KV cache, bytes; None if its blocks were given.
        num_gpu_blocks: KV blocks of an instance, the null block included.
        block_tokens: tokens of a block.
        max_num_seqs: requests that may run at once.
        max_model_len: longest prompt plus output, tokens; None if none is enforced.
        has_own_graph_memory: whether what the engine leaves to the KV cache is without the memory
            of its graphs already.
    """

    cost: KernelCost
    kv_bytes: int | None
    num_gpu_blocks: int
    block_tokens: int
    max_num_seqs: int
    max_model_len: int | None
    has_own_graph_memory: bool = False

    @property
    def token_bytes(self) -> int:
        """KV bytes of a token on one GPU."""
        return self.cost.shard.kv_bytes_per_token

    @property
    def block_bytes(self) -> int:
        """KV bytes of a block on one GPU."""
        return self.block_tokens * self.token_bytes

    @property
    def budget_bytes(self) -> int:
        """KV bytes of one GPU, whether they follow from its memory or from blocks given."""
        return self.num_gpu_blocks * self.block_bytes if self.kv_bytes is None else self.kv_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitting:
    """An executor on its site.

    Attributes:
        cost: what its steps cost.
        num_gpu_blocks: KV blocks that are left, the null block included.
        max_num_seqs: requests that may run at once.
        taken_bytes: memory of one GPU that the executor takes from the KV cache, bytes.
        standing_bytes: KV memory of one GPU that is reserved whatever runs, bytes.
        reserves_blocks: whether the blocks in use come on top of that.
        needs_block_tables: whether it must be told which blocks a request holds.
        shares_prefixes: whether two requests can hold one block.
        reads_real_lengths: whether attention reads contexts as long as they are.
        near_window_tokens: tokens of a context before which decodes read nothing; None: they read
            all of it.
    """

    cost: CostModel
    num_gpu_blocks: int
    max_num_seqs: int
    taken_bytes: int = 0
    standing_bytes: int = 0
    reserves_blocks: bool = True
    needs_block_tables: bool = False
    shares_prefixes: bool = True
    reads_real_lengths: bool = True
    near_window_tokens: int | None = None

    def reserved_bytes(
        self, used_blocks: npt.NDArray[np.float64], block_bytes: int
    ) -> npt.NDArray[np.float64]:
        """KV bytes of one GPU that nobody else can use, while so many blocks are in use."""
        per_block = block_bytes if self.reserves_blocks else 0
        reserved: npt.NDArray[np.float64] = self.standing_bytes + per_block * used_blocks
        return reserved


class Executor(Protocol):
    """Submits steps. Its arguments are the options of the config group; a fitting is of one job."""

    @abstractmethod
    def fit(self, site: Site) -> Fitting:
        """The executor on a site.

        Raises:
            ConfigError: an option has no effect there, or is too large.
            CapacityError: what it reserves does not fit.
        """


def check_time(name: str, value: float) -> None:
    """Check a time that is an option.

    Raises:
        ConfigError: it is no time of a launch or a copy.
    """
    if not 0 <= value <= MAX_TIME_S:
        raise ConfigError(f"executor.{name}={value:g}: must be 0 to {MAX_TIME_S:g} seconds")


def parallel_launches(value: int | None, tensor_parallel: int) -> int:
    """Launches that a layer has under tensor parallelism and not without.

    Args:
        value: the option; None takes the default.
        tensor_parallel: GPUs of an instance.

    Raises:
        ConfigError: it was given where nothing is parallel.
    """
    if tensor_parallel > 1:
        return LAUNCHES_PER_LAYER_PARALLEL if value is None else value
    if value is not None:
        raise ConfigError(
            f"executor.launches_per_layer_parallel={value} has no effect with "
            "cluster.tensor_parallel=1: leave it out"
        )
    return 0


def check_count(name: str, value: int | None, low: int = 1, high: int = 10**9) -> None:
    """Check a count that is an option; None leaves it to the executor.

    Raises:
        ConfigError: it is out of range.
    """
    if value is not None and not low <= value <= high:
        raise ConfigError(f"executor.{name}={value}: must be {low:,} to {high:,}")
