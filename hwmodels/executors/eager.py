"""`eager`: every kernel is launched by the host."""

from collections.abc import Sequence

from hwmodels.calibrated import CalibratedCost, TokenTimes
from hwmodels.executors.executor import (
    REPLAY_IN_HOST_S,
    Executor,
    Fitting,
    KernelCost,
    Site,
    check_count,
    check_time,
    parallel_launches,
)
from hwmodels.executors.kernel_prices import NO_TIME, check_nccl, eager_all_reduce_times
from hwmodels.executors.launched import Launch, LaunchedCost, Launcher
from sim.errors import ConfigError
from sim.interfaces import DecodeBatchView, PrefillChunk

ALL_REDUCES = ("nccl", "custom")


class Eager(Executor):
    """A step takes `max(GPU time, launches * launch_s)` and the host's time: launches overlap.

    Args:
        launch_s: host time of one kernel launch, seconds.
        launches_per_layer: kernels of a layer.
        launches_per_layer_parallel: further ones of a layer under tensor parallelism; None: 2.
        launches_per_step: kernels outside the layers.
        all_reduce: "nccl" or "custom" (the kernel of the graphs); None is nccl.

    Raises:
        ConfigError: a value is out of range or has no effect.

    Source: POLICIES 3.
    """

    def __init__(
        self,
        launch_s: float = 6e-6,
        launches_per_layer: int = 11,
        launches_per_layer_parallel: int | None = None,
        launches_per_step: int = 10,
        all_reduce: str | None = None,
    ) -> None:
        check_time("launch_s", launch_s)
        for name, value in (
            ("launches_per_layer", launches_per_layer),
            ("launches_per_layer_parallel", launches_per_layer_parallel),
            ("launches_per_step", launches_per_step),
        ):
            check_count(name, value, low=0, high=10**6)
        if all_reduce not in (None, *ALL_REDUCES):
            raise ConfigError(
                f"executor.all_reduce={all_reduce}: must be null, {' or '.join(ALL_REDUCES)}"
            )
        self.launch_s = launch_s
        self.launches_per_layer = launches_per_layer
        self.launches_per_layer_parallel = launches_per_layer_parallel
        self.launches_per_step = launches_per_step
        self.all_reduce = all_reduce

    def fit(self, site: Site) -> Fitting:
        """Memory stays as it is."""
        if self.all_reduce is not None:
            check_nccl(site.cost, f"all_reduce={self.all_reduce}")
        launcher = EagerLauncher(site.cost, self.floor_s(site.cost), self.all_reduce != "custom")
        return Fitting(
            cost=LaunchedCost(site.cost, launcher),
            num_gpu_blocks=site.num_gpu_blocks,
            max_num_seqs=site.max_num_seqs,
        )

    def floor_s(self, cost: KernelCost) -> float:
        """Time of all launches of a step, seconds."""
        parallel = parallel_launches(self.launches_per_layer_parallel, cost.tensor_parallel)
        per_layer = self.launches_per_layer + parallel
        return (cost.shard.num_layers * per_layer + self.launches_per_step) * self.launch_s


class EagerLauncher(Launcher):
    """Launches kernel by kernel.

    Args:
        cost: what steps take.
        floor_s: time of all launches of a step, seconds.
        has_nccl: whether all-reduces are NCCL's.
    """

    def __init__(self, cost: KernelCost, floor_s: float, has_nccl: bool) -> None:
        self._cost = cost
        self._floor_s = floor_s
        self._has_nccl = has_nccl and cost.tensor_parallel > 1 and isinstance(cost, CalibratedCost)
        self._times: dict[int, TokenTimes] = {}
        self.padding(1, 1)  # a kernel that is missing must be told now

    def decode(self, batch: DecodeBatchView) -> Launch:
        """A decode-only step."""
        size = batch.num_requests
        return Launch(self.padding(size, size), self._floor_s, -REPLAY_IN_HOST_S)

    def mixed(self, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]) -> Launch:
        """A step with prefill chunks."""
        num_tokens = batch.num_requests + sum([chunk.new_tokens for chunk in chunks])
        padding = self.padding(batch.num_requests, num_tokens)
        return Launch(padding, self._floor_s, -REPLAY_IN_HOST_S)

    def padding(self, num_decodes: int, num_tokens: int) -> TokenTimes:
        """What all-reduces take longer; no row is padded."""
        if not self._has_nccl:
            return NO_TIME
        if num_tokens not in self._times:
            self._times[num_tokens] = eager_all_reduce_times(self._cost, num_tokens)
        return self._times[num_tokens]
