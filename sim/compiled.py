"""Where Python finds the compiled form of the engine, if there is one.

The engine is plain Python. `flocksim-compile` translates its busiest modules (those that packages
name as `COMPILED`) to machine code with mypyc, and keeps them in a folder of the environment that
is named after the digest of all sources they came from. A package that has such modules puts that
folder in front of its own; whoever edits a source has another digest, so what runs is always what
the sources say. Both forms give the same results, byte for byte.

`FLOCKSIM_COMPILED=0` runs plain Python, `FLOCKSIM_COMPILED=1` refuses to; builds are kept in
`FLOCKSIM_COMPILED_DIR`.
"""

import functools
import hashlib
import os
import sys
from collections.abc import Iterable
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import NoReturn

SWITCH = "FLOCKSIM_COMPILED"
FOLDER = "FLOCKSIM_COMPILED_DIR"
PACKAGES = ("sim", "hwmodels")
"""Packages with compiled modules; a change in any source of theirs asks for a new build."""

_COMPLETE = "complete"


def search_path(package: str, path: Iterable[str]) -> list[str]:
    """Folders in which a package's modules are searched for: those compiled come first.

    Args:
        package: dotted name of the package.
        path: its own `__path__`.
    """
    folder = build_in_use()
    own = list(path)
    return own if folder is None else [str(folder.joinpath(*package.split("."))), *own]


@functools.cache
def build_in_use() -> Path | None:
    """Folder of the build that this process runs, None if it runs plain Python.

    Raises:
        SystemExit: `FLOCKSIM_COMPILED` is neither 0 nor 1, or 1 and there is no build.
    """
    wish = os.environ.get(SWITCH, "")
    if wish not in ("", "0", "1"):
        _refuse(f"{SWITCH}={wish}: must be 0 (plain Python) or 1 (compiled), or not set")
    if wish == "0":
        return None
    folder = build_folder()
    if is_complete(folder):
        sys.path.append(str(folder))  # what all compiled modules share lies there
        return folder
    if wish == "1":
        _refuse(f"{SWITCH}=1, but these sources are not compiled: run flocksim-compile")
    return None


def form_in_use() -> str:
    """The form of the engine that this process runs, in words."""
    return "plain Python" if build_in_use() is None else "compiled engine"


def is_stale() -> bool:
    """Whether this process runs plain Python because the sources have changed since a build."""
    return build_in_use() is None and not is_complete(build_folder()) and has_builds()


def has_builds() -> bool:
    """Whether there are builds, of whatever sources."""
    builds = builds_folder()
    return builds.is_dir() and any(map(is_complete, builds.iterdir()))


def _refuse(line: str) -> NoReturn:
    print(f"flocksim: error: {line}", file=sys.stderr)
    raise SystemExit(2)


def is_complete(folder: Path) -> bool:
    """Whether a folder holds a whole build: every file has the size that it was made with."""
    try:
        lines = (folder / _COMPLETE).read_text(encoding="utf-8").splitlines()
        files = [line.split(" ", 1) for line in lines]
        return bool(files) and all(
            (folder / name).stat().st_size == int(size) for size, name in files
        )
    except (OSError, ValueError):
        return False


def mark_complete(folder: Path) -> None:
    """Say that a folder holds a whole build."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = [f"{path.stat().st_size} {path.relative_to(folder).as_posix()}\n" for path in files]
    (folder / _COMPLETE).write_text("".join(lines), encoding="utf-8")


def builds_folder() -> Path:
    """Folder of all builds; if not said otherwise, it goes with the Python environment."""
    named = os.environ.get(FOLDER)
    if named and not Path(named).is_absolute():
        _refuse(f"{FOLDER}={named}: must be an absolute path")
    return Path(named) if named else Path(sys.prefix) / "flocksim-compiled"


def build_folder() -> Path:
    """Folder of the build of these sources for this Python, whether it exists or not."""
    return builds_folder() / digest_of(sources_root())


def digest_of(root: Path) -> str:
    """Name of a build of the packages in `root` for this Python."""
    digest = hashlib.sha256(EXTENSION_SUFFIXES[0].encode())
    for path in source_files(root):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def sources_root() -> Path:
    """Folder that holds the packages."""
    return Path(__file__).resolve().parent.parent


def source_files(root: Path) -> list[Path]:
    """Every source below `root` on which a build depends, in the same order everywhere."""
    found = (path for package in PACKAGES for path in (root / package).rglob("*.py"))
    return sorted(found, key=lambda path: path.relative_to(root).as_posix())
