"""The folder of builds: whole ones appear and go at once, half ones are swept up."""

import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sim import compiled

MAX_BUILDS = 3
"""Builds that stay, the newest ones: those of sources as they were before may come back."""

_NEW = ".new-"
_ABANDONED_S = 3600.0
"""After this time, seconds, nobody works on a build any more."""


@contextmanager
def new_folder(builds: Path) -> Iterator[Path]:
    """A folder to work in, on the same file system as the builds; it is removed at the end."""
    builds.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=_NEW, dir=builds))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def put(made: Path, target: Path) -> None:
    """Move a build into place at once, so that nobody ever sees half of it."""
    if target.exists():
        _remove(target)
    try:
        made.rename(target)
    except OSError:
        if not compiled.is_complete(target):  # else another process was quicker
            raise


def remove_old_builds(newest: Path) -> None:
    """Remove the oldest builds beside a new one, and what interrupted ones have left."""
    builds = _builds(newest.parent)
    builds.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in builds[MAX_BUILDS:]:
        if path != newest:
            _remove(path)
    for path in newest.parent.glob(f"{_NEW}*"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _ABANDONED_S:
                shutil.rmtree(path, ignore_errors=True)


def remove_builds() -> list[Path]:
    """Remove every build, and nothing else that lies there; returns what was removed."""
    folder = compiled.builds_folder()
    found = _builds(folder)
    for path in found:
        _remove(path)
    if folder.is_dir():
        for path in folder.glob("*.log"):
            if _is_name(path.stem):
                path.unlink()
        for path in folder.glob(f"{_NEW}*"):
            shutil.rmtree(path, ignore_errors=True)
        with suppress(OSError):  # something else lies there
            folder.rmdir()
    return found


def _builds(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if _is_name(path.name) and path.is_dir())


def _is_name(name: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{16}", name) is not None


def _remove(path: Path) -> None:
    """First out of the way, so that nobody begins to use it."""
    gone = Path(tempfile.mkdtemp(prefix=_NEW, dir=path.parent))
    path.rename(gone / "build")
    shutil.rmtree(gone, ignore_errors=True)
