"""The seams of the simulator: what a cost model, a policy or an engine must provide.

Implementations live above `sim` and import from here. A policy sees live engine objects through the
read-only Protocols below; it must not change them. It returns a decision, the engine checks and
applies it.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from sim.operations import OperationCounts
from sim.request import Request

if TYPE_CHECKING:
    from sim.cost_totals import CostTotals
    from sim.load_arrays import LoadArrays
    from sim.step_ends import StepEnds

FloatArray = npt.NDArray[np.float64]


class PrefillChunk(NamedTuple):
    """Prefill work of one request in one step.

    Attributes:
        new_tokens: tokens computed in this step, >= 1.
        prefix_tokens: tokens of the request whose KV already exists (cached or computed before).
        is_last: whether the chunk completes the prefill, so that the step samples a token.
    """

    new_tokens: int
    prefix_tokens: int
    is_last: bool


class RunningTree(Protocol):
    """The prefix tree restricted to the requests that decode now.

    Kept only for a cost model with `uses_prefix_tree`; nodes that one request alone uses are left
    out. Unshared tokens follow from the batch's context moments.
    """

    @property
    @abstractmethod
    def member_counts(self) -> Mapping[int, int]:
        """Decoding requests through each node, for nodes with two or more of them."""

    @property
    @abstractmethod
    def version(self) -> int:
        """Grows whenever the counts change, so that derived sums can be cached."""

    @property
    @abstractmethod
    def tokens_by_members(self) -> Mapping[int, int]:
        """Tokens of all nodes with so many decoding requests, for counts of two or more."""

    @property
    @abstractmethod
    def shared_tokens(self) -> int:
        """Tokens of the nodes with two or more decoding requests, each counted once."""

    @property
    @abstractmethod
    def path_tokens(self) -> int:
        """The same, counted once for every request that reads them."""

    @property
    @abstractmethod
    def num_pairs(self) -> int:
        """Pairs of a decoding request and a node, over nodes with two or more of them."""

    @property
    @abstractmethod
    def common_tokens(self) -> int:
        """Leading tokens shared by all running requests, those that still prefill included."""

    @abstractmethod
    def node_tokens(self, node: int) -> int:
        """Tokens of a node."""

    @abstractmethod
    def members_in_order(self) -> Sequence[Request]:
        """Decoding requests in running order (the order in which a kernel meets them)."""


class DecodeBatchView(Protocol):
    """The requests that decode in the next step, as moments a cost model can price.

    A request's context in a step counts the token being computed: `computed tokens + 1`. In step k
    of a run (k = 0, 1, ...) every context is k tokens longer than in the first one.
    """

    @property
    @abstractmethod
    def num_requests(self) -> int:
        """B, requests decoding."""

    @property
    @abstractmethod
    def context_tokens(self) -> int:
        """S1, sum of the contexts, tokens."""

    @property
    @abstractmethod
    def context_tokens_squared(self) -> int:
        """S2, sum of the squared contexts, tokens^2."""

    @property
    @abstractmethod
    def max_context_tokens(self) -> int:
        """Longest context, tokens; 0 when nothing decodes."""

    @property
    @abstractmethod
    def tree(self) -> RunningTree | None:
        """Running prefix tree; None unless the cost model asks and the workload shares anything."""


RunTable = npt.NDArray[np.void]
"""Runs of equal steps as a structured array of `sim.recorder.RUN_DTYPE`."""


class CostLedger(Protocol):
    """Says where the time and the bytes of one instance went.

    The engine records every executed run; a ledger notes beside it what the run table lacks. It is
    kept apart from pricing, because a run may be cut after it was priced. Terms must not depend on
    how steps are grouped into runs.
    """

    add_decode: Callable[[DecodeBatchView, int], None] | None
    """Told of the next so many decode-only steps of a batch (B >= 1), as they are executed; None if
    the run table says all about them."""

    write_chunk_ends: (
        Callable[[DecodeBatchView, PrefillChunk, int, float, "StepEnds", int], None] | None
    ) = None
    """Prices the next so many steps, which decode a batch and prefill chunk after chunk of one
    prompt, and writes their ends as `CostModel.write_run_ends` does: (batch, first chunk, number of
    steps, start in seconds, ends, entry of the first one). Every chunk has as many tokens and none
    is the last. Each step must be noted and priced as by `mixed_step_s`. None: that is asked step
    by step."""

    @abstractmethod
    def mixed_step_s(self, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]) -> float:
        """Duration in seconds of the next step, which decodes `batch` and prefills `chunks`.

        The step is entered at once, because a step with prefills is never cut. Must equal the cost
        model's `mixed_step_s`.
        """

    @abstractmethod
    def totals(self, runs: RunTable, durations_s: FloatArray) -> "CostTotals":
        """Sums over `runs`, the first ones of the instance.

        Args:
            runs: the run table.
            durations_s: what each run took as priced, seconds. Shape (runs,).
        """

    @abstractmethod
    def run_costs(self, runs: RunTable, durations_s: FloatArray) -> FloatArray:
        """Cost terms of each of `runs`. Shape (runs, fields of `CostTotals`)."""


class CostModel(Protocol):
    """Prices the steps of one instance. Stateless towards the engine: same input, same price.

    `decode_run_s(b, n)[0]` must equal `decode_step_s(b)` bit for bit, and its k-th entry must equal
    `decode_step_s` of the batch after k steps (1e-9 relative where transcendental functions enter).
    An executor or a scheduler overhead wraps a CostModel and is one.
    """

    uses_prefix_tree: bool

    @abstractmethod
    def decode_step_s(self, batch: DecodeBatchView) -> float:
        """Duration of the next step if it only decodes `batch` (B >= 1), seconds."""

    @abstractmethod
    def decode_run_s(self, batch: DecodeBatchView, num_steps: int) -> FloatArray:
        """Durations of the next `num_steps` >= 1 decode-only steps, seconds. Shape (num_steps,).

        The caller may overwrite the returned array.
        """

    def write_run_ends(
        self, batch: DecodeBatchView, num_steps: int, start_s: float, ends: "StepEnds", at: int
    ) -> None:
        """Write the ends of the next `num_steps` decode-only steps, the first one at entry `at`.

        A model may override this to price short runs without arrays. Whatever it does, each end
        must be the one before plus the step's `decode_step_s`, in float64.
        """
        durations_s = self.decode_run_s(batch, num_steps)
        durations_s[0] += start_s
        np.add.accumulate(durations_s, out=ends.times[at : at + num_steps])

    @abstractmethod
    def mixed_step_s(self, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]) -> float:
        """Duration of the next step if it decodes `batch` and prefills `chunks`, seconds."""

    @abstractmethod
    def open_ledger(self) -> CostLedger:
        """An empty ledger for one instance."""


class InstanceView(Protocol):
    """What a batch policy may read of its instance."""

    @property
    @abstractmethod
    def instance_id(self) -> int:
        """Index of the instance in its cluster."""

    @property
    @abstractmethod
    def waiting(self) -> Mapping[int, Request]:
        """Waiting requests by id, in queue order (preempted ones first)."""

    @property
    @abstractmethod
    def running(self) -> Mapping[int, Request]:
        """Running requests by id, in running order."""

    @property
    @abstractmethod
    def num_free_blocks(self) -> int:
        """KV blocks that nobody holds (they may carry cached prefixes)."""

    @property
    @abstractmethod
    def num_usable_blocks(self) -> int:
        """KV blocks of the instance less the null block."""

    @abstractmethod
    def cached_tokens(self, request: Request) -> int:
        """Prompt tokens of a waiting request that the prefix cache holds now. Changes nothing."""


class BatchPolicy(Protocol):
    """Decides which waiting requests are tried for admission, and in what order."""

    decides: ClassVar[Literal["every_step", "on_change"]] = "on_change"
    """`on_change`: the order depends on the waiting and running sets only, so that a run of decode
    steps need not ask again. `every_step` turns macro-stepping off while anything waits."""

    admits_in_arrival_order: ClassVar[bool] = False
    """True if a later arrival can never overtake a waiting one: then an arrival behind a blocked
    head need not be looked at."""

    operations: OperationCounts | None = None
    """What the policy has done so far, for scheduler CPU time; None if it counts nothing. Where it
    is simulated, a policy that counts is asked in every step while anything waits."""

    @abstractmethod
    def candidates(self, instance: InstanceView, now_s: float) -> Iterable[Request]:
        """Waiting requests in the order in which to try them; stopping early closes the batch.

        The engine admits each one as it is yielded (it is then in `instance.running`) and stops at
        the first one that does not fit; it takes the admitted ones out of `instance.waiting` when
        the iteration is over. It asks at most once per step, only with seats and token budget left.
        A policy that yields nothing while nothing runs is asked again at the next arrival only.
        """

    def on_arrival(self, instance: InstanceView, request: Request, now_s: float) -> None:
        """A request joined the waiting queue (also after a preemption)."""
        return

    def on_admit(self, instance: InstanceView, request: Request, now_s: float) -> None:
        """A request was admitted to the running batch."""
        return

    def on_finish(self, instance: InstanceView, request: Request, now_s: float) -> None:
        """A request left the running batch: finished, or preempted and waiting again."""
        return

    def on_step(self, instance: InstanceView, num_running: int, duration_s: float) -> None:
        """A step of `num_running` requests was planned on its own and will take `duration_s`.

        With `decides = "every_step"` that is every step planned while requests were waiting.
        """
        return


class ClusterView(Protocol):
    """What a router sees of the cluster; possibly stale, as real routers' views are."""

    @property
    @abstractmethod
    def num_instances(self) -> int:
        """Number of instances."""

    @property
    @abstractmethod
    def num_running(self) -> Sequence[int]:
        """Running requests per instance."""

    @property
    @abstractmethod
    def num_waiting(self) -> Sequence[int]:
        """Waiting requests per instance."""

    @property
    @abstractmethod
    def num_requests(self) -> Sequence[int]:
        """Running plus waiting requests per instance."""

    @property
    @abstractmethod
    def queued_prefill_tokens(self) -> Sequence[int]:
        """Tokens per instance that still have to be prefilled (waiting and part-done prompts).

        A waiting prompt counts whole, as what it will hit is known only when it is admitted.
        """

    @property
    @abstractmethod
    def queued_hit_tokens(self) -> Sequence[int]:
        """Tokens of waiting prompts that were found cached when they were sent, per instance.

        `queued_prefill_tokens` less these is what the router expects to be computed. 0 unless the
        router declares `uses_prefix_match` and matched the request.
        """

    @abstractmethod
    def matched_tokens(self, request: Request) -> Sequence[int]:
        """Leading prompt tokens of `request` in the prefix cache of each instance.

        Whole KV blocks, at most the prompt less one token: what `InstanceView.cached_tokens` would
        answer. Only for routers that declare `uses_prefix_match`; to be asked for the request that
        is being routed.
        """

    @abstractmethod
    def kv_usage(self) -> Sequence[float]:
        """Share of each instance's KV blocks that running requests hold, 0 to 1, brought to now.

        Only for routers that declare `uses_kv_usage`; 0 for others.
        """

    @abstractmethod
    def kv_tokens(self) -> Sequence[int]:
        """Tokens whose KV the running requests of each instance hold, brought to now."""

    @abstractmethod
    def load_arrays(self) -> "LoadArrays | None":
        """The live counters of a large cluster as arrays, brought to now; else None.

        Only for routers that declare `uses_prefix_match`; they use `LoadArrays.match` then.
        """

    @property
    @abstractmethod
    def is_live(self) -> bool:
        """Whether the counters are those of this instant, and not reported ones."""

    @property
    @abstractmethod
    def version(self) -> int:
        """Grows each time a view that is not live is refreshed."""


class Router(Protocol):
    """Picks the instance for an arriving request.

    It may also show its scores (`sim.decision_log.ScoredRouter`), and an order of ties that can be
    shifted (`sim.tie_shift`).
    """

    looks_at_cluster: ClassVar[bool] = True
    """False if the choice never depends on the view: then its staleness cannot matter."""

    uses_prefix_match: bool = False
    """True if it calls `ClusterView.matched_tokens`: only then is an index of the caches kept."""

    uses_kv_usage: bool = False
    """True if it calls `ClusterView.kv_usage`: only then is it kept for views that are not live."""

    @abstractmethod
    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        """Instance id in [0, cluster.num_instances). Must not change request or view."""


class AdmissionPolicy(Protocol):
    """Accepts or refuses a request at the door of the cluster; refused ones count as rejected."""

    @abstractmethod
    def admit(self, request: Request, now_s: float) -> bool:
        """Whether the request may enter; True or False, nothing else."""


class EvictionPolicy(Protocol):
    """Orders the blocks that nobody holds: the smallest key is evicted first."""

    is_release_order: bool = False
    """True if keys grow with every release (LRU): then blocks are appended without asking."""

    @abstractmethod
    def key(self, owner: int, first_block: int, num_blocks: int, release_index: int) -> float:
        """Key of a run of blocks at its release; equal keys keep release order.

        Args:
            owner: prefix-tree node, or a negative number for private blocks.
            first_block: position of the run within its owner, blocks.
            num_blocks: length of the run, blocks.
            release_index: number of releases before this one.
        """
