"""Block-seconds of KV blocks that are taken or freed between two plans of an instance.

The run log holds the blocks in use after each plan and the growth of decodes follows from their
intervals (`sim.kv_usage`). What changes at other times, and what is held while nothing runs, is
added up here.
"""


class BlockSeconds:
    """Integral over time of blocks that the run log does not know of.

    Attributes:
        total: blocks times seconds.
        is_open: whether anything has changed since the last plan.
    """

    __slots__ = ("_blocks", "_weighted", "is_open", "total")

    def __init__(self) -> None:
        self.total = 0.0
        self._blocks = 0
        self._weighted = 0.0
        self.is_open = False

    def change(self, num_blocks: int, now_s: float) -> None:
        """So many blocks more (or fewer) are in use from `now_s` on."""
        self._blocks += num_blocks
        self._weighted += num_blocks * now_s
        self.is_open = True

    def close(self, now_s: float) -> None:
        """The next plan, made at `now_s`, knows of all blocks."""
        self.total += self._blocks * now_s - self._weighted
        self._blocks = 0
        self._weighted = 0.0
        self.is_open = False
