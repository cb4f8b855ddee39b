"""The highest factor of the rate at which something holds: doubling, then bisection of its log.

It is taken to hold below some factor and not above it.
"""

from dataclasses import dataclass, field

MAX_DOUBLINGS = 20
"""Doublings (and halvings) until the search gives up."""


@dataclass(slots=True)
class Search:
    """A search that is told verdicts and asks for the next factor.

    Attributes:
        start: the first factor, > 0.
        tolerance: ratio less 1 of the two ends of the interval at which it is narrow enough.
        low: highest factor found to hold, None if none did.
        high: lowest factor found not to hold, None if all did.
        num_points: verdicts so far.
    """

    start: float
    tolerance: float
    low: float | None = None
    high: float | None = None
    num_points: int = 0
    _next: float | None = field(init=False)

    def __post_init__(self) -> None:
        self._next = rounded(self.start)

    @property
    def next_factor(self) -> float | None:
        """The factor to look at now; None when the search has ended."""
        return self._next

    def tell(self, does_hold: bool) -> None:
        """Say whether it holds at `next_factor`."""
        assert self._next is not None
        self.num_points += 1
        if does_hold:
            self.low = self._next
        else:
            self.high = self._next
        self._next = self._choose()

    def give_up(self) -> None:
        """End the search: what remains to be looked at would tell nothing new."""
        self._next = None

    def _choose(self) -> float | None:
        low, high = self.low, self.high
        if high is None:
            assert low is not None
            return rounded(2 * low) if self.num_points <= MAX_DOUBLINGS else None
        if low is None:
            return rounded(high / 2) if self.num_points <= MAX_DOUBLINGS else None
        if high <= low * (1 + self.tolerance):
            return None
        middle = rounded(float(low * high) ** 0.5)
        return middle if low < middle < high else None


def rounded(factor: float) -> float:
    """Six significant digits: the same in a command line, a directory's name and a key."""
    return float(f"{factor:.6g}")
