"""`cuda_graph`: decode steps replay a graph captured for the next larger batch, as vLLM's do."""

from bisect import bisect_left
from collections.abc import Sequence

from hwmodels.calibrated import TokenTimes
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
from hwmodels.executors.kernel_prices import NO_TIME, CascadeTest, padding_times
from hwmodels.executors.launched import Launch, LaunchedCost, Launcher
from hwmodels.executors.memory import without_bytes
from sim.errors import ConfigError
from sim.interfaces import DecodeBatchView, PrefillChunk
from sim.units import GIB

CAPTURE_SIZES = (1, 2, 4, *range(8, 257, 8), *range(272, 513, 16))
"""Source: vLLM's default capture sizes (POLICIES 3)."""

GRAPH_MEMORY_BYTES = GIB
"""Memory of all captured graphs. Source: POLICIES 3 (ours)."""

MAX_CAPTURE_SIZE = 65_536


class CudaGraph(Executor):
    """Rows of a decode step are padded to a captured size, and one graph is replayed.

    Logits and attention are not padded. A step with prefill chunks or cascade attention replays a
    piece per layer and launches attention between: `max(GPU time, layers * piece_s)`. A step of
    more tokens than the largest size is eager.

    Args:
        capture_sizes: sizes captured, tokens; those above `engine.max_num_seqs` are left out. None:
            1, 2, 4, 8 to 256 by 8, 272 to 512 by 16.
        replay_s: host time of one replay, seconds.
        piece_s: host time per layer of a step in pieces, seconds.
        launch_s: host time of one launch in a step above the largest size, seconds.
        launches_per_layer: kernels of a layer, in such a step.
        launches_per_layer_parallel: further ones of a layer under tensor parallelism; None: 2.
        launches_per_step: kernels outside the layers, in such a step.
        graph_memory_bytes: memory of the graphs on each GPU, off the KV cache; None: 1 GiB, or
            nothing where blocks were given or the engine leaves room for them itself.

    Raises:
        ConfigError: a value is out of range or has no effect.

    Source: POLICIES 3; vLLM v1 `compilation` defaults.
    """

    def __init__(
        self,
        capture_sizes: list[int] | None = None,
        replay_s: float = 10e-6,
        piece_s: float = 20e-6,
        launch_s: float = 6e-6,
        launches_per_layer: int = 11,
        launches_per_layer_parallel: int | None = None,
        launches_per_step: int = 10,
        graph_memory_bytes: int | None = None,
    ) -> None:
        for name, time_s in (("replay_s", replay_s), ("piece_s", piece_s), ("launch_s", launch_s)):
            check_time(name, time_s)
        for name, value in (
            ("launches_per_layer", launches_per_layer),
            ("launches_per_layer_parallel", launches_per_layer_parallel),
            ("launches_per_step", launches_per_step),
        ):
            check_count(name, value, low=0, high=10**6)
        check_count("graph_memory_bytes", graph_memory_bytes, low=0, high=10**15)
        self.capture_sizes = _checked_sizes(capture_sizes)
        self.replay_s = replay_s
        self.piece_s = piece_s
        self.launch_s = launch_s
        self.launches_per_layer = launches_per_layer
        self.launches_per_layer_parallel = launches_per_layer_parallel
        self.launches_per_step = launches_per_step
        self.graph_memory_bytes = graph_memory_bytes

    def fit(self, site: Site) -> Fitting:
        """The KV cache gives the memory of the graphs."""
        sizes = [size for size in self.capture_sizes if size <= site.max_num_seqs]
        if not sizes:
            raise ConfigError(
                f"executor.capture_sizes: the smallest, {self.capture_sizes[0]}, exceeds the "
                f"{site.max_num_seqs} seats of the engine"
            )
        taken_bytes = self.graph_memory_bytes
        if site.kv_bytes is None and taken_bytes is not None:
            raise ConfigError(
                f"executor.graph_memory_bytes={taken_bytes} has no effect when "
                "engine.num_gpu_blocks is given: leave one of them out"
            )
        if taken_bytes is None:
            is_free = site.kv_bytes is None or site.has_own_graph_memory
            taken_bytes = 0 if is_free else GRAPH_MEMORY_BYTES
        return Fitting(
            cost=LaunchedCost(site.cost, GraphLauncher(site.cost, self, sizes, site.block_tokens)),
            num_gpu_blocks=without_bytes(site, taken_bytes, "cuda_graph"),
            max_num_seqs=site.max_num_seqs,
            taken_bytes=taken_bytes,
        )


class GraphLauncher(Launcher):
    """Replays captured graphs.

    Args:
        cost: what steps take.
        options: constants.
        sizes: captured sizes, growing.
        block_tokens: tokens of a KV block.
    """

    def __init__(
        self, cost: KernelCost, options: CudaGraph, sizes: Sequence[int], block_tokens: int
    ) -> None:
        self._cost = cost
        self._sizes = sizes
        self._cascade = CascadeTest(cost, block_tokens)
        per_layer = options.launches_per_layer + parallel_launches(
            options.launches_per_layer_parallel, cost.tensor_parallel
        )
        layers = cost.shard.num_layers
        launches = layers * per_layer + options.launches_per_step
        self._replay = options.replay_s - REPLAY_IN_HOST_S
        self._pieces_s, self._launches_s = layers * options.piece_s, launches * options.launch_s
        self._times: dict[int, TokenTimes] = {}

    def decode(self, batch: DecodeBatchView) -> Launch:
        """A decode-only step: one replay, unless it cascades or is too large."""
        size = batch.num_requests
        if size <= self._sizes[-1] and not self._cascade.decode(batch):
            return Launch(self.padding(size, size), 0.0, self._replay)
        return self._in_pieces(size, size)

    def mixed(self, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]) -> Launch:
        """A step with prefill chunks."""
        num_tokens = batch.num_requests + sum([chunk.new_tokens for chunk in chunks])
        return self._in_pieces(batch.num_requests, num_tokens)

    def _in_pieces(self, num_decodes: int, num_tokens: int) -> Launch:
        is_captured = num_tokens <= self._sizes[-1]
        floor_s = self._pieces_s if is_captured else self._launches_s
        return Launch(self.padding(num_decodes, num_tokens), floor_s, -REPLAY_IN_HOST_S)

    def padding(self, num_decodes: int, num_tokens: int) -> TokenTimes:
        """What rows up to the next captured size add."""
        times = self._times.get(num_tokens)
        if times is None:
            place = bisect_left(self._sizes, num_tokens)
            times = NO_TIME
            if place < len(self._sizes):
                times = padding_times(self._cost, num_tokens, self._sizes[place])
            self._times[num_tokens] = times
        return times


def _checked_sizes(sizes: Sequence[int] | None) -> tuple[int, ...]:
    if sizes is None:
        return CAPTURE_SIZES
    is_list = isinstance(sizes, list | tuple) and len(sizes) > 0
    if (
        not is_list
        or not all(type(size) is int and 1 <= size <= MAX_CAPTURE_SIZE for size in sizes)
        or list(sizes) != sorted(set(sizes))
    ):
        raise ConfigError(
            f"executor.capture_sizes={sizes}: must be whole numbers from 1 to "
            f"{MAX_CAPTURE_SIZE:,}, each larger than the one before"
        )
    return tuple(sizes)
