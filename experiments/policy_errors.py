"""Exceptions out of a user's own classes, as one line that says where.

A class is a user's if it is in none of our packages. Its mistakes are input, not defects of the
simulator.
"""

import functools
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from experiments.package_guard import PACKAGES, package_parent
from experiments.schema.plugin import Plugin
from sim.errors import FlocksimError

TRACEBACK_VARIABLE = "FLOCKSIM_TRACEBACK"
"""Environment variable; 1 also prints the traceback of what a user's code raised."""


class PolicyError(FlocksimError):
    """A user's class raised; the original is the cause."""


@contextmanager
def blaming(plugins: Iterable[Plugin]) -> Iterator[None]:
    """Turn what the users' classes among `plugins` raise inside the block into a PolicyError.

    Everything else, an interruption included, passes.

    Raises:
        PolicyError: one of the classes raised.
    """
    try:
        yield
    except (FlocksimError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        line = blame(error, plugins)
        if line is None:
            raise
        raise PolicyError(line) from error


def blame(error: BaseException, plugins: Iterable[Plugin]) -> str | None:
    """One line that names class, exception, file and line; None if no user's class is to blame."""
    users = [plugin for plugin in plugins if plugin.target.partition(".")[0] not in PACKAGES]
    if not users:
        return None
    roots = {plugin.target.partition(".")[0] for plugin in users}
    place = _place_in_users_code(error.__traceback__, roots)
    if place is not None:
        frame, line = place
        where, name = f"{frame.f_code.co_filename}:{line}", _class_of(frame, users)
    else:
        signature = _wrong_signature(error, users)
        if signature is None:
            return None
        where, name = signature
    text = " ".join(str(error).split())
    said = f": {text}" if text else ""
    return f"policy {name} raised {type(error).__name__}{said} ({where})"


def show_cause(error: BaseException) -> None:
    """Print the traceback of what a user's code raised, if the environment asks for it."""
    cause = error.__cause__
    if os.environ.get(TRACEBACK_VARIABLE) == "1" and cause is not None:
        traceback.print_exception(cause, file=sys.stderr)


def _place_in_users_code(
    trace: TracebackType | None, roots: set[str]
) -> tuple[FrameType, int] | None:
    """Innermost frame, and its line, that runs a user's code."""
    found = None
    for frame, line in traceback.walk_tb(trace):
        if str(frame.f_globals.get("__name__")).partition(".")[0] in roots or _is_foreign(
            frame.f_code.co_filename
        ):
            found = frame, line
    return found


def _is_foreign(filename: str) -> bool:
    """Whether a source file belongs to neither our packages nor an installation of Python."""
    if filename.startswith("<"):
        return False
    path = Path(filename).resolve()
    return not any(path.is_relative_to(folder) for folder in _known_folders())


@functools.cache
def _known_folders() -> tuple[Path, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = [Path(sysconfig.get_paths()[name]).resolve() for name in names]
    for package in PACKAGES:
        parent = package_parent(package)
        if parent is not None:
            folders.append(parent / package)
    return tuple(folders)


def _class_of(frame: FrameType, users: list[Plugin]) -> str:
    """Name of the class whose method runs in the frame or called it."""
    modules = {plugin.target.rpartition(".")[0]: plugin for plugin in users}
    at: FrameType | None = frame
    while at is not None:
        owner = type(at.f_locals.get("self"))
        plugin = modules.get(str(at.f_globals.get("__name__")))
        if any(f"{base.__module__}.{base.__qualname__}" in _targets(users) for base in owner.mro()):
            return owner.__name__
        if plugin is not None and at.f_locals.get("self") is None:
            return plugin.target.rpartition(".")[2]
        at = at.f_back
    return users[0].target.rpartition(".")[2]


def _targets(users: list[Plugin]) -> set[str]:
    return {plugin.target for plugin in users}


def _wrong_signature(error: BaseException, users: list[Plugin]) -> tuple[str, str] | None:
    """Where a method is defined that was called with other arguments than it takes."""
    if not isinstance(error, TypeError):
        return None
    for plugin in users:
        found = plugin.load_class()
        for name in dir(found):
            method: Any = getattr(found, name, None)
            code = getattr(method, "__code__", None)
            if code is not None and str(error).startswith(f"{method.__qualname__}() "):
                return f"{code.co_filename}:{code.co_firstlineno}", found.__name__
    return None
