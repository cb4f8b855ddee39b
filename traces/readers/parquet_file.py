"""Parquet files in bounded memory: digest, columns and batches of rows."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sim.errors import TraceFormatError
from traces.options import require_path
from traces.readers.reading import Reading

BATCH_ROWS = 65_536
"""Rows decoded at a time."""

_PIECE_BYTES = 1 << 24


class ParquetSource:
    """An open parquet file.

    Args:
        reading: names the file and is told of the progress.

    Attributes:
        sha256: digest of the file.
        num_rows: rows of the file.

    Raises:
        TraceFormatError: there is no such file, it cannot be read, or it is no parquet file.
    """

    def __init__(self, reading: Reading) -> None:
        import pyarrow.parquet as pq

        self._reading = reading
        path = require_path("trace.path", reading.path)
        with _refusing(reading):
            if path.is_fifo():
                raise reading.refuse(0, "is a pipe, must be a file: parquet begins at its end")
            self.sha256, self._num_bytes = _digest(path)
            self._file: Any = pq.ParquetFile(path, page_checksum_verification=True)
            self._schema: Any = self._file.schema_arrow
            self.num_rows: int = self._file.metadata.num_rows
            self._names: list[str] = list(self._schema.names)
        if self.num_rows < 1:
            raise reading.refuse(0, "is empty, must have at least one row")

    @property
    def columns(self) -> Mapping[str, Any]:
        """Arrow type of each column."""
        return {name: self._schema.field(i).type for i, name in enumerate(self._names)}

    @property
    def repeated(self) -> str | None:
        """A column name that occurs more than once."""
        return next((name for name in self._names if self._names.count(name) > 1), None)

    def metadata(self, key: bytes) -> bytes | None:
        """An entry of the schema's metadata."""
        found: bytes | None = (self._schema.metadata or {}).get(key)
        return found

    def num_values(self, name: str) -> int:
        """Values of a list column, at most: the file counts an empty list as one."""
        total = 0
        with _refusing(self._reading):
            for group in range(self._file.metadata.num_row_groups):
                row_group = self._file.metadata.row_group(group)
                for index in range(row_group.num_columns):
                    chunk = row_group.column(index)
                    if chunk.path_in_schema.split(".")[0] == name:
                        total += chunk.num_values
        return total

    def batches(self, names: Sequence[str]) -> Iterator[tuple[int, Any]]:
        """Record batches of the columns `names`, each with the number of rows before it.

        Raises:
            TraceFormatError: the file is damaged.
        """
        first = 0
        with _refusing(self._reading):
            batches = self._file.iter_batches(BATCH_ROWS, columns=list(names), use_threads=True)
        while True:
            with _refusing(self._reading):
                batch = next(batches, None)
                if batch is not None:
                    batch.validate(full=True)  # text may be no UTF-8
            if batch is None:
                break
            if first + batch.num_rows > self.num_rows:
                break
            yield first, batch
            first += batch.num_rows
            if self._reading.progress is not None:
                share = min(first / self.num_rows, 1.0)
                self._reading.progress(int(share * self._num_bytes), self._num_bytes)
        if first != self.num_rows:
            why = f"is damaged: it has not the {self.num_rows} rows that its footer says"
            raise self._reading.refuse(0, why)


def _digest(path: Any) -> tuple[str, int]:
    digest, num_bytes = hashlib.sha256(), 0
    with path.open("rb") as content:
        while piece := content.read(_PIECE_BYTES):
            digest.update(piece)
            num_bytes += len(piece)
    return digest.hexdigest(), num_bytes


@contextmanager
def _refusing(reading: Reading) -> Iterator[None]:
    """Whatever the file makes Arrow say becomes one line."""
    import pyarrow as pa

    try:
        yield
    except TraceFormatError:
        raise
    except FileNotFoundError:
        raise reading.refuse(0, "no such file") from None
    except IsADirectoryError:
        raise reading.refuse(0, "is a directory, must be a file") from None
    except (pa.ArrowException, OSError, ValueError, MemoryError, TypeError) as error:
        words = " ".join((getattr(error, "strerror", None) or str(error)).split())
        words = words if len(words) <= 160 else words[:157] + "..."
        raise reading.refuse(0, f"cannot be read as parquet: {words}") from None
