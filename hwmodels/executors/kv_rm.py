"""`kv_rm`: a decoder of fixed shape that reads a near window, gathered from paged blocks.

The mechanism of KV-RM (arXiv 2605.09735), a paper that its authors withdrew (v2, 30 June 2026):
nothing of it is a target, and no number of it is used.
"""

from hwmodels.executors.executor import Executor, Fitting, Site, check_count, check_time
from hwmodels.executors.fixed_graphs import FixedGraphs
from hwmodels.executors.memory import without_bytes
from hwmodels.executors.paged_shape import PagedShapeCost, Transport
from sim.block_allocator import check_allocator
from sim.errors import CapacityError, ConfigError
from sim.units import GIB

MAX_SLOTS = 256

MIN_HBM_RATIO = 1e-6
"""Least share of the memory bandwidth; below, times would no longer be finite."""

GATHERS = ("delta", "full")
STAGED = ("all", "one")


class KvRm(Executor):
    """Blocks are in use as in a paged engine; windows are staged for kernels of fixed shape.

    Args:
        num_slots: requests of the decode graph; None: as many as `staging_ratio` of the KV memory
            stages, at most 256 and the engine's seats.
        staging_ratio: share of the KV memory for staging where `num_slots` is left out; None: 0.5.
        near_window_tokens: latest tokens of a context that a step reads.
        far_view_tokens: tokens of summaries of older history per slot; 0: older tokens are not
            read.
        gather: "delta" moves the windows of new requests and one tail block per request and step,
            "full" all windows in every step.
        has_double_buffer: two buffers, so that transfers run beside the kernels of a step; with one
            they come before them.
        staged_layers: "all" layers at once, or "one" after the other (with gather=full alone).
        allocator: which free block comes next: lowest_first, newest_first or oldest_first.
        merge_max_gap_blocks: blocks between two wanted ones that are read along to save a group.
        group_s: fixed time of a transfer group, seconds.
        hbm_ratio: rate of a transfer as a share of the peak memory bandwidth.
        commit_s: time of a frame commit, seconds.
        submit_s: host time to submit a graph, seconds.

    Raises:
        ConfigError: a value is out of range or has no effect.

    Source: POLICIES 3.
    """

    def __init__(
        self,
        num_slots: int | None = None,
        staging_ratio: float | None = None,
        near_window_tokens: int = 4096,
        far_view_tokens: int = 0,
        gather: str = "delta",
        has_double_buffer: bool = True,
        staged_layers: str = "all",
        allocator: str = "lowest_first",
        merge_max_gap_blocks: int = 0,
        group_s: float = 3e-6,
        hbm_ratio: float = 0.5,
        commit_s: float = 15e-6,
        submit_s: float = 10e-6,
    ) -> None:
        check_count("num_slots", num_slots, high=65_536)
        check_count("near_window_tokens", near_window_tokens)
        check_count("far_view_tokens", far_view_tokens, low=0)
        check_count("merge_max_gap_blocks", merge_max_gap_blocks, low=0)
        for name, value in (("group_s", group_s), ("commit_s", commit_s), ("submit_s", submit_s)):
            check_time(name, value)
        _check_ratio("hbm_ratio", hbm_ratio, MIN_HBM_RATIO)
        check_allocator(allocator)
        for name, text, allowed in (
            ("gather", gather, GATHERS),
            ("staged_layers", staged_layers, STAGED),
        ):
            if text not in allowed:
                raise ConfigError(f"executor.{name}={text}: must be {' or '.join(allowed)}")
        if staged_layers == "one" and gather == "delta":
            raise ConfigError(
                "executor.staged_layers=one needs executor.gather=full: what stays in the buffer "
                "from step to step is there for all layers"
            )
        if staging_ratio is not None:
            _check_ratio("staging_ratio", staging_ratio)
            if num_slots is not None:
                raise ConfigError(
                    f"executor.staging_ratio={staging_ratio:g} has no effect when "
                    "executor.num_slots is given: leave one of them out"
                )
        self.num_slots = num_slots
        self.staging_ratio = 0.5 if staging_ratio is None else staging_ratio
        self.near_window_tokens = near_window_tokens
        self.far_view_tokens = far_view_tokens
        self.gather = gather
        self.has_double_buffer = has_double_buffer
        self.staged_layers = staged_layers
        self.allocator = allocator
        self.merge_max_gap_blocks = merge_max_gap_blocks
        self.group_s = group_s
        self.hbm_ratio = hbm_ratio
        self.commit_s = commit_s
        self.submit_s = submit_s

    def fit(self, site: Site) -> Fitting:
        """Staging takes its part of the KV memory, blocks the rest."""
        slot_bytes = self.slot_bytes(site)
        num_slots = self.num_slots
        if num_slots is None:
            num_slots = min(int(self.staging_ratio * site.budget_bytes) // slot_bytes, MAX_SLOTS)
        num_slots = min(num_slots, site.max_num_seqs)
        if num_slots < 1:
            raise CapacityError(
                f"executor=kv_rm: not one slot of {slot_bytes / GIB:.2f} GiB of staging per GPU "
                f"fits {self.staging_ratio:g} of the {site.budget_bytes / GIB:.2f} GiB for KV; "
                "lower executor.near_window_tokens or raise executor.staging_ratio"
            )
        staging_bytes = num_slots * slot_bytes
        is_from_memory = site.kv_bytes is not None
        taken_bytes = staging_bytes if is_from_memory else 0
        device = site.cost.device
        transport = Transport(
            near_window_tokens=self.near_window_tokens,
            far_view_tokens=self.far_view_tokens,
            is_delta=self.gather == "delta",
            is_hidden=self.has_double_buffer,
            merge_max_gap_blocks=self.merge_max_gap_blocks,
            commit_s=self.commit_s,
            group_s=self.group_s,
            bytes_per_s=self.hbm_ratio * device.hbm_bytes_per_s,
            block_bytes=site.block_bytes,
            block_tokens=site.block_tokens,
            allocator=self.allocator,
        )
        graphs = FixedGraphs(site.cost, num_slots)
        return Fitting(
            cost=PagedShapeCost(graphs, transport, self.submit_s),
            num_gpu_blocks=without_bytes(site, taken_bytes, "kv_rm"),
            max_num_seqs=num_slots,
            taken_bytes=taken_bytes,
            standing_bytes=staging_bytes,
            needs_block_tables=True,
            reads_real_lengths=False,
            near_window_tokens=self.near_window_tokens,
        )

    def slot_bytes(self, site: Site) -> int:
        """Staging memory of a slot on one GPU, bytes."""
        window = self.near_window_tokens + self.far_view_tokens
        slot_bytes = window * site.token_bytes * (2 if self.has_double_buffer else 1)
        if self.staged_layers == "one":
            slot_bytes //= site.cost.shard.num_layers
        return slot_bytes


def _check_ratio(name: str, value: float, low: float = 0.0) -> None:
    if not (0 < value <= 1 and value >= low):
        least = f"at least {low:g}" if low else "above 0"
        raise ConfigError(f"executor.{name}={value:g}: must be {least} and at most 1")
