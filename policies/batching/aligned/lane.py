"""A decode instance as the controller sees it: its batch, and what lies ready for it."""

from policies.batching.aligned.length_tree import ROOT, Node
from sim.disaggregation.moving import MovingRequest, Stage


class Lane:
    """A decode instance, and its part of the buffer of a prefill instance.

    Args:
        gpu: the decode instance.
        buffer: in the memory of the prefill instance that serves it.
        max_blocks: KV blocks of a batch at most.
        batch_blocks: KV blocks of the part of the buffer for the next batch.
        spare_blocks: KV blocks of the part for requests that top up the running batch.

    Attributes:
        node: interval of the running batch.
        is_aligned: whether it was formed by length.
        number: of the running batch; -1 before the first one.
        batch: the next batch; empty if none is formed.
        batch_node, batch_is_aligned: the same of the next batch.
        batch_coming: its requests on their way to the buffer.
        switching: requests of the batch that is being switched in, on their way to the GPU.
        switched: those of them that are there.
        spare: requests in the buffer that may top up the batch, in the order in which they do.
        spare_coming: those on their way.
        away: requests that were evicted and lie in the pool; they come back before all others.
        num_inbound: transfers to the GPU under way, or complete and not admitted yet.
    """

    def __init__(
        self, gpu: Stage, buffer: Stage, max_blocks: int, batch_blocks: int, spare_blocks: int
    ) -> None:
        self.gpu = gpu
        self.buffer = buffer
        self.max_blocks = max_blocks
        self.batch_blocks = batch_blocks
        self.spare_blocks = spare_blocks
        self.node: Node | None = None
        self.is_aligned = False
        self.number = -1
        self.batch: list[MovingRequest] = []
        self.batch_node: Node = ROOT
        self.batch_is_aligned = False
        self.batch_coming: set[int] = set()
        self.switching: dict[int, MovingRequest] = {}
        self.switched: set[int] = set()
        self.spare: dict[int, MovingRequest] = {}
        self.spare_coming: dict[int, MovingRequest] = {}
        self.away: dict[int, MovingRequest] = {}
        self.num_inbound = 0

    @property
    def is_batch_ready(self) -> bool:
        """Whether there is a next batch, and all of it lies where it was sent."""
        return bool(self.batch) and not self.batch_coming

    @property
    def spare_bytes(self) -> int:
        """KV of all requests that may top up the batch."""
        parts = (*self.spare.values(), *self.spare_coming.values())
        return sum(moving.num_bytes for moving in parts)
