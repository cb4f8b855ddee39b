"""Files that are complete or absent: written beside their place, then renamed into it."""

import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from sim.errors import FlocksimError


class OutputError(FlocksimError):
    """A result cannot be written where the user asked for it."""


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file of the same directory, then move it to `path`.

    Raises:
        OutputError: the directory or the disk refuses.
    """
    temporary: Path | None = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
        temporary = Path(name)
        write(temporary)
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file in UTF-8, atomically."""
    write_atomically(path, lambda temporary: _write_utf8(temporary, text))


def _write_utf8(path: Path, text: str) -> None:
    # A file name that is no UTF-8 holds surrogates; their escapes are valid JSON.
    path.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")


def make_writable(directory: Path, names: Iterable[str] = ()) -> None:
    """Create the directory if need be and prove that files can be written there.

    Args:
        directory: where to write.
        names: files to be written there.

    Raises:
        OutputError: they cannot.
    """
    if directory.exists() and not directory.is_dir():
        raise OutputError(f"{directory}: is a file, but must be a directory")
    for name in names:
        if (directory / name).is_dir():
            raise OutputError(f"{directory / name}: is a directory where a file is to be written")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise OutputError(f"{directory}: cannot be written: {error.strerror or error}") from error


def remove_leftovers(directory: Path, names: Iterable[str]) -> None:
    """Remove temporary files that a process left when it was killed; nobody else may be writing.

    Args:
        directory: where it wrote.
        names: the files it meant to write.
    """
    for name in names:
        remove_files(directory, [path.name for path in directory.glob(f".{name}.*")])


def remove_files(directory: Path, names: Iterable[str]) -> None:
    """Remove files of an earlier job, where there are any.

    Raises:
        OutputError: the directory refuses.
    """
    for name in names:
        try:
            (directory / name).unlink(missing_ok=True)
        except OSError as error:
            where = directory / name
            raise OutputError(f"{where}: cannot be removed: {error.strerror or error}") from error
