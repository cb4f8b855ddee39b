"""Requests that failed when they were recorded: counted and refused, or left out on demand."""

from sim.workload import IntArray
from traces.readers.reading import Reading

FAILED = "failed"
"""Why these rows are left out, in `Reading.skipped` and in the provenance."""


class FailedRows:
    """Collects the failed rows of a file.

    Args:
        reading: told of them.
        is_skipped: whether they are left out rather than refused (`trace.skip_failed`).
    """

    def __init__(self, reading: Reading, is_skipped: bool) -> None:
        self._reading = reading
        self._is_skipped = is_skipped
        self._lines: list[IntArray] = []
        self._where: list[str] = []

    @property
    def count(self) -> int:
        """How many there are so far."""
        return sum(map(len, self._lines))

    def add(self, lines: IntArray, where: str = "") -> None:
        """Note the lines of some failed rows.

        Args:
            lines: their lines.
            where: which request of that line it is, for messages.
        """
        if len(lines):
            self._lines.append(lines)
            self._where.append(where)

    def report(self, what: str) -> None:
        """Tell the pass of all of them, after the last row.

        Args:
            what: what is wrong with such a row.

        Raises:
            TraceFormatError: they are not left out, and the pass is strict.
        """
        if self._is_skipped:
            self._reading.skip(FAILED, self.count)
            return
        total = f"{self.count:,} such row{'s' if self.count > 1 else ''} in the file"
        why = f"{what}: a failed request, {total} (trace.skip_failed=true leaves them out)"
        for lines, where in zip(self._lines, self._where, strict=True):
            for line in lines.tolist():
                self._reading.fault(line, FAILED, where + why)

    def provenance(self) -> dict[str, dict[str, int]]:
        """What to add to the provenance."""
        return {"skipped": {FAILED: self.count}} if self._is_skipped else {}

    def refuse_if_alone(self, num_rows: int) -> None:
        """Refuse a file of nothing but failed rows.

        Raises:
            TraceFormatError: `num_rows`, the good ones, is 0 although some were left out.
        """
        if self._is_skipped and self.count and not num_rows:
            raise self._reading.refuse(0, f"all {self.count:,} requests failed, none is left")
