"""Text files in bounded memory: whole lines in pieces, compressed or not, with digest and progress.

The digest is that of the content, so that compressing a trace changes nothing in a result.
"""

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator
from contextlib import closing
from typing import BinaryIO, cast

from sim.errors import TraceFormatError
from traces.options import require_path
from traces.readers.reading import Reading

PIECE_BYTES = 1 << 24
"""Bytes read at a time."""

MAX_LINE_BYTES = 1 << 28
"""Longest line; more is taken for a file of another kind."""

_UTF8_MARK = b"\xef\xbb\xbf"
_GZIP_MAGIC, _ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class TextFile:
    """A UTF-8 text file, plain, gzip or zstd (told by its first bytes, not by its name).

    Args:
        reading: names the file and is told of the progress.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._digest = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """Digest of the content read so far, unpacked; of all of it after the last piece."""
        return self._digest.hexdigest()

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        r"""Whole lines in order: (number of the first one, lines that each end in ``\n``).

        A newline is added where the file's last line has none; a byte order mark is removed.

        Raises:
            TraceFormatError: there is no such file, it cannot be read or unpacked, has no text, or
                is not UTF-8.
        """
        line, blank = 1, b""
        for piece in self._whole_lines():
            if line == 1 and not piece.strip() and len(blank) <= MAX_LINE_BYTES:
                blank += piece  # a file without rows is told from rows after blank lines
                continue
            piece, blank = blank + piece, b""
            yield line, self._checked(piece, line)
            line += piece.count(b"\n")
        if line == 1:
            raise self._refuse(0, "is empty, must have at least one row")

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Lines with their numbers, each with its newline; raises as `pieces`."""
        for first, piece in self.pieces():
            yield from enumerate(io.BytesIO(piece), first)

    def read(self) -> bytes:
        """All of it, for formats that are one document; raises as `pieces`."""
        return b"".join(piece for _, piece in self.pieces())

    def _whole_lines(self) -> Iterator[bytes]:
        line, tail = 1, b""
        for chunk in self._chunks():
            data = tail + chunk
            end = data.rfind(b"\n") + 1
            piece, tail = data[:end], data[end:]
            line += piece.count(b"\n")
            if len(tail) > MAX_LINE_BYTES:
                raise self._refuse(line, "line is too long to be a row")
            if piece:
                yield piece
        if tail:
            yield tail + b"\n"

    def _chunks(self) -> Iterator[bytes]:
        reading = self._reading
        path = require_path("trace.path", reading.path)
        try:
            with path.open("rb") as raw, closing(_unpacked(raw)) as content:
                num_bytes = path.stat().st_size
                is_first = True
                while chunk := content.read(PIECE_BYTES):
                    self._digest.update(chunk)
                    if reading.progress is not None and raw.seekable():
                        reading.progress(raw.tell(), num_bytes)
                    yield chunk.removeprefix(_UTF8_MARK) if is_first else chunk
                    is_first = False
        except FileNotFoundError:
            raise self._refuse(0, "no such file") from None
        except IsADirectoryError:
            raise self._refuse(0, "is a directory, must be a file") from None
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise self._refuse(0, f"cannot be unpacked: {error}") from None
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or " ".join(str(error).split())
            raise self._refuse(0, f"cannot be read: {why}") from None

    def _checked(self, piece: bytes, line: int) -> bytes:
        if not piece.isascii():
            try:
                piece.decode("utf-8")
            except UnicodeDecodeError as error:
                where = line + piece.count(b"\n", 0, error.start)
                why = f"byte 0x{piece[error.start]:02x} is not UTF-8 text"
                raise self._refuse(where, why) from None
        return piece

    def _refuse(self, line: int, why: str) -> TraceFormatError:
        return self._reading.refuse(line, why)


def _unpacked(raw: io.BufferedReader) -> BinaryIO:
    magic = raw.peek(4)[:4]  # a pipe cannot be wound back
    if magic.startswith(_GZIP_MAGIC):
        return cast(BinaryIO, gzip.GzipFile(fileobj=raw))
    if magic == _ZSTD_MAGIC:
        import pyarrow as pa

        return cast(BinaryIO, pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd"))
    return raw
