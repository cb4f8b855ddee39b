"""What a scheduling policy does on the CPU, counted."""

from dataclasses import dataclass

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
@dataclass(slots=True)
class OperationCounts:
    """Operations of one policy since it was made, as its published algorithm does them.

    They only grow; whoever prices them (`sim.scheduler_cost`) takes differences.

    Attributes:
        tokens_compared: token ids compared one by one.
        node_visits: tree nodes or chunk keys looked up or updated.
        keys_hashed: chunk hashes computed.
        tokens_hashed: token ids that went into them.
        heap_operations: pushes to and pops from heaps.
        candidates_scanned: waiting requests looked at, their place in a sort included.
    """

    tokens_compared: int = 0
    node_visits: int = 0
    keys_hashed: int = 0
    tokens_hashed: int = 0
    heap_operations: int = 0
    candidates_scanned: int = 0

    @property
    def values(self) -> tuple[int, ...]:
        """The counts, in order of the attributes."""
        return (
            self.tokens_compared,
            self.node_visits,
            self.keys_hashed,
            self.tokens_hashed,
            self.heap_operations,
            self.candidates_scanned,
        )
