"""How a directory is written on a command line, for Hydra and for the shell."""

import re
import shlex
from pathlib import Path

_PLAIN = re.compile(r"[\w./+-]+", re.ASCII)


def quoted(value: str) -> str:
    """A value as Hydra's command line reads it back, whatever characters it has."""
    escaped = value.replace("'", "\\'")
    return f"'{escaped}'"


def as_value(value: str) -> str:
    """A value as Hydra's command line reads it back, quoted only where it must be."""
    return value if _PLAIN.fullmatch(value) else quoted(value)


def override_as_typed(key: str, directory: Path) -> str:
    """The override that sets a directory, as it is typed into a shell."""
    return shlex.quote(f"{key}={as_value(str(directory))}")


def word_as_typed(directory: Path) -> str:
    """A directory as it is typed into a shell."""
    return shlex.quote(str(directory))
