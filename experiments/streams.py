"""Standard streams that cannot fail: closed, full or broken, they cost text but never a run.

A process that writes results must not lose them, nor change its exit code, because nobody reads
what it prints.
"""

import io
import os
import select
import sys
from contextlib import suppress
from typing import Any, TextIO

_OUT, _ERR = 1, 2


class LenientRaw(io.RawIOBase):
    """Writes to a descriptor; at the first failure the descriptor becomes the null device.

    Args:
        descriptor: an open file descriptor.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def writable(self) -> bool:
        """True."""
        return True

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor

    def isatty(self) -> bool:
        """Whether a terminal is behind it."""
        return os.isatty(self._descriptor)

    def write(self, data: Any, /) -> int:
        """Write what the descriptor takes; where it takes nothing, drop all of it."""
        while True:
            try:
                return os.write(self._descriptor, data)
            except BlockingIOError:
                select.select([], [self._descriptor], [])
            except OSError:
                with suppress(OSError):
                    _make_null(self._descriptor)
                return len(data)


def install_lenient_streams() -> None:
    """Replace the process's standard output and error; streams put there by others stay.

    Text that the encoding lacks appears as escapes.
    """
    if sys.stdout is None or sys.stdout is sys.__stdout__:
        sys.stdout = lenient(sys.stdout, _OUT)
    if sys.stderr is None or sys.stderr is sys.__stderr__:
        sys.stderr = lenient(sys.stderr, _ERR)


def lenient(stream: TextIO | None, descriptor: int) -> TextIO:
    """A text stream on the descriptor of `stream` that never raises.

    Args:
        stream: the stream to replace; None if the interpreter found its descriptor closed.
        descriptor: the descriptor to open on the null device where there is no stream.
    """
    encoding = "utf-8"
    if stream is None:
        _fill_if_closed(descriptor)
    else:
        encoding = stream.encoding
        try:
            descriptor = stream.fileno()
            stream.flush()
        except (OSError, ValueError):
            return stream
    buffered = io.BufferedWriter(LenientRaw(descriptor))
    return io.TextIOWrapper(
        buffered, encoding=encoding, errors="backslashreplace", line_buffering=True
    )


def _fill_if_closed(descriptor: int) -> None:
    """Occupy a closed standard descriptor, or the next file opened would receive the output."""
    try:
        os.fstat(descriptor)
    except OSError:
        _make_null(descriptor)


def _make_null(descriptor: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    if null != descriptor:
        os.dup2(null, descriptor)
        os.close(null)
