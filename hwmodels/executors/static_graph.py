"""`static_graph`: a decoder of fixed shape, slots times window, over KV memory of fixed slots."""

from hwmodels.executors.executor import Executor, Fitting, Site, check_count, check_time
from hwmodels.executors.fixed_graphs import FixedGraphs
from hwmodels.executors.fixed_shape import FixedShapeCost
from sim.errors import CapacityError, ConfigError
from sim.units import GIB

MAX_SLOTS = 256
"""Source: POLICIES 3 (ours)."""

SMALLEST_BUCKET_TOKENS = 512

SWITCH_S = 50e-6
"""Seconds to load the graph of another bucket. Source: POLICIES 3 (ours)."""


class StaticGraph(Executor):
    """All slots are computed and read in every decode step, each over the window of its bucket.

    A slot holds the longest context, always. A request takes a slot or waits; one that is longer
    than a slot is refused and counted. All slots run in the bucket that the longest context needs.
    Nothing is shared between slots.

    Args:
        num_slots: None: as many as the KV memory holds, at most 256 and the engine's seats.
        max_context_tokens: of a slot; None: `engine.max_model_len`, else the model's.
        rebuckets: whether there are graphs of smaller windows; if not, steps read whole slots.
        smallest_bucket_tokens: window of the smallest graph; each is twice the one before. None:
            512.
        switch_s: time to change to the graph of another bucket, seconds. None: 50 us.
        submit_s: host time to submit a graph, seconds.

    Raises:
        ConfigError: a value is out of range or has no effect.

    Source: POLICIES 3.
    """

    def __init__(
        self,
        num_slots: int | None = None,
        max_context_tokens: int | None = None,
        rebuckets: bool = True,
        smallest_bucket_tokens: int | None = None,
        switch_s: float | None = None,
        submit_s: float = 10e-6,
    ) -> None:
        check_count("num_slots", num_slots, high=65_536)
        check_count("max_context_tokens", max_context_tokens, low=2)
        check_count("smallest_bucket_tokens", smallest_bucket_tokens)
        for name, value in (
            ("smallest_bucket_tokens", smallest_bucket_tokens),
            ("switch_s", switch_s),
        ):
            if value is not None and not rebuckets:
                raise ConfigError(
                    f"executor.{name}={value:g} has no effect with executor.rebuckets=false: "
                    "leave it out"
                )
        smallest = smallest_bucket_tokens
        self.smallest_bucket_tokens = SMALLEST_BUCKET_TOKENS if smallest is None else smallest
        self.switch_s = SWITCH_S if switch_s is None else switch_s
        check_time("switch_s", self.switch_s)
        check_time("submit_s", submit_s)
        self.num_slots = num_slots
        self.max_context_tokens = max_context_tokens
        self.rebuckets = rebuckets
        self.submit_s = submit_s

    def fit(self, site: Site) -> Fitting:
        """Slots take the KV memory; no block of it is for anything else."""
        context = self.max_context_tokens or site.max_model_len
        context = context or site.cost.shape.max_context_tokens
        slot_bytes = context * site.token_bytes
        fitting = site.budget_bytes // slot_bytes
        num_slots = min(fitting, MAX_SLOTS, site.max_num_seqs)
        if self.num_slots is not None:
            num_slots = min(self.num_slots, site.max_num_seqs)
        if not 1 <= num_slots <= fitting:
            raise CapacityError(
                f"executor=static_graph: {max(num_slots, 1):,} slots of {context:,} tokens "
                f"({slot_bytes / GIB:.2f} GiB each per GPU) do not fit the "
                f"{site.budget_bytes / GIB:.2f} GiB for KV; lower executor.max_context_tokens or "
                "executor.num_slots"
            )
        cost = FixedShapeCost(
            FixedGraphs(site.cost, num_slots),
            self.windows(context),
            self.submit_s,
            self.switch_s,
            context,
        )
        return Fitting(
            cost=cost,
            num_gpu_blocks=num_slots * -(-context // site.block_tokens) + 1,
            max_num_seqs=num_slots,
            taken_bytes=0,
            standing_bytes=num_slots * slot_bytes,
            reserves_blocks=False,
            shares_prefixes=False,
            reads_real_lengths=False,
        )

    def windows(self, max_context_tokens: int) -> list[int]:
        """Windows of the graphs, growing; the last one is a whole slot."""
        found = []
        window = self.smallest_bucket_tokens
        while self.rebuckets and window < max_context_tokens:
            found.append(window)
            window *= 2
        return [*found, max_context_tokens]
