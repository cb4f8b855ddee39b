"""One run per directory at a time."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from experiments.results.atomic import OutputError


class DirectoryBusyError(OutputError):
    """Another run writes to the same directory."""


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the directory until the block ends; leaves no file behind.

    The lock is the kernel's and ends with the process. Where there is none (Windows, some network
    file systems) the block runs without.

    Raises:
        DirectoryBusyError: another run holds it.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    try:
        handle = os.open(directory, os.O_RDONLY)
    except OSError:  # may be written but not read
        yield
        return
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"{directory}: another flocksim run is writing here"
            raise DirectoryBusyError(message) from None
        except OSError:
            pass
        yield
    finally:
        os.close(handle)
