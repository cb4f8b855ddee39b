"""What one pass over a file tells others: faults, rows skipped on request, progress."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sim.errors import TraceFormatError

ReadProgress = Callable[[int, int], None]
"""Called with (bytes of the file read so far, bytes of the file)."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A row that breaks the format.

    Attributes:
        line: line number from 1 (row number where the format has no lines), 0 for the whole file.
        kind: a few words that all faults of the same kind share, such as a column's name.
        why: what is wrong, with the offending value and what is allowed.
    """

    line: int
    kind: str
    why: str


class Reading:
    """A strict pass: the first fault ends it.

    Args:
        path: the file as the user named it, for messages.
        progress: told how much of the file has been read.

    Attributes:
        skipped: rows left out because an option of the reader asks for it, by reason.
    """

    def __init__(self, path: str | Path, progress: ReadProgress | None = None) -> None:
        self.path = path
        self.progress = progress
        self.skipped: Counter[str] = Counter()

    def fault(self, line: int, kind: str, why: str) -> None:
        """Report a bad row; the reader leaves it out if this returns.

        Raises:
            TraceFormatError: in a strict pass.
        """
        raise TraceFormatError(str(self.path), line, why)

    def refuse(self, line: int, why: str) -> TraceFormatError:
        """The error for what makes the rest of the file unreadable, to be raised in any pass."""
        return TraceFormatError(str(self.path), line, why)

    def skip(self, reason: str, num_rows: int = 1) -> None:
        """Count rows that an option leaves out."""
        if num_rows:
            self.skipped[reason] += num_rows


class FaultFinding(Reading):
    """A pass that notes every fault and goes on.

    Args:
        path: as `Reading`.
        progress: as `Reading`.
        limit: faults kept of each kind; all are counted.

    Attributes:
        faults: the faults kept, in the order found.
        counts: faults of each kind.
    """

    def __init__(
        self, path: str | Path, progress: ReadProgress | None = None, limit: int = 1_000_000
    ) -> None:
        super().__init__(path, progress)
        self.faults: list[Fault] = []
        self._counts: Counter[str] = Counter()
        self._limit = limit

    @property
    def counts(self) -> Mapping[str, int]:
        """Faults of each kind, the most frequent first."""
        return dict(self._counts.most_common())

    def fault(self, line: int, kind: str, why: str) -> None:
        """Note a bad row."""
        self._counts[kind] += 1
        if self._counts[kind] <= self._limit:
            self.faults.append(Fault(line, kind, why))
