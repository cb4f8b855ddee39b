"""Reading of JSON records that must be complete and hold nothing unknown.

Used by device profiles, the model catalogue and Hugging Face configurations. Every mistake becomes
one `ConfigError` line that names the file, the key, the value and what is allowed.
"""

import difflib
import json
from collections.abc import Collection, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from sim.errors import ConfigError


class _RepeatedKeyError(Exception):
    """A JSON object names a key twice."""


def _object_without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record: dict[str, object] = {}
    for key, value in pairs:
        if key in record:
            raise _RepeatedKeyError(key)
        record[key] = value
    return record


def shown(value: object) -> str:
    """`value` as it appears in a message, shortened where it is long."""
    try:
        text = repr(value)
    except ValueError:  # an int of more digits than Python writes out
        text = f"<{type(value).__name__} of very many digits>"
    return text if len(text) <= 60 else text[:57] + "..."


def _shown_key(text: str) -> str:
    """A key as it appears in a message: bare where that is plain to read."""
    return text if text.isidentifier() and len(text) <= 60 else shown(text)


def read_object(source: Path | Traversable) -> dict[str, object]:
    """Read a file that holds one JSON object.

    Raises:
        ConfigError: the file cannot be read, is not JSON, or is not an object.
    """
    try:
        text = source.read_text(encoding="utf-8")
    except OSError as error:
        reason = error.strerror or "not readable"
        raise ConfigError(f"{source}: cannot read the file: {reason}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{source}: not a JSON text in UTF-8") from None
    except ValueError as error:  # a path with a NUL
        raise ConfigError(f"{str(source)!r}: cannot read the file: {error}") from None
    try:
        value: object = json.loads(text, object_pairs_hook=_object_without_repeats)
        json.dumps(value, ensure_ascii=False).encode()  # fails on a lone surrogate
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise ConfigError(f"{source}: text with {half}, half of a character") from None
    except RecursionError:
        raise ConfigError(f"{source}: not valid JSON: too deep") from None
    except _RepeatedKeyError as error:
        raise ConfigError(
            f"{source}: key {_shown_key(error.args[0])} appears twice in one object"
        ) from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise ConfigError(
            f"{source}: not valid JSON: {error.msg.removesuffix(' at')} at {where}"
        ) from None
    except ValueError:
        raise ConfigError(f"{source}: not valid JSON: a number of too many digits") from None
    if not isinstance(value, dict):
        found = type(value).__name__
        raise ConfigError(f"{source}: must hold one JSON object, found {found}")
    return value


def check_keys(
    where: str,
    record: Mapping[str, object],
    required: Collection[str],
    optional: Collection[str] = (),
) -> None:
    """Check that all required keys are there and no unknown one is.

    Raises:
        ConfigError: names the missing or unknown keys and lists the allowed ones.
    """
    missing = [key for key in required if key not in record]
    unknown = [key for key in record if key not in required and key not in optional]
    if not missing and not unknown:
        return
    parts = []
    if missing:
        parts.append(f"missing key {', '.join(missing)}")
    if unknown:
        parts.append(f"unknown key {', '.join(map(_shown_key, unknown))}")
    allowed = ", ".join([*required, *optional])
    raise ConfigError(f"{where}: {'; '.join(parts)}; allowed: {allowed}")


def as_object(where: str, value: object) -> dict[str, object]:
    """The value as a JSON object.

    Raises:
        ConfigError: it is something else.
    """
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: must be an object, found {shown(value)}")
    return value


def as_text(where: str, value: object) -> str:
    """The value as a text that is not empty.

    Raises:
        ConfigError: it is something else.
    """
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{where}: must be a text that is not empty, found {shown(value)}")
    return value


def packaged_names(folder: str) -> list[str]:
    """Names of the JSON records that the package carries in a folder, sorted."""
    entries = (files("hwmodels") / folder).iterdir()
    return sorted(
        entry.name.removesuffix(".json") for entry in entries if entry.name.endswith(".json")
    )


def looks_like_path(name_or_path: str) -> bool:
    """Whether the text means a file or folder and not the name of a packaged record."""
    has_separator = "/" in name_or_path or "\\" in name_or_path
    return has_separator or name_or_path.endswith(".json")


def packaged_record(kind: str, folder: str, name: str) -> Traversable:
    """The packaged JSON record of that name.

    Raises:
        ConfigError: there is none; the line lists the valid names and the closest one.
    """
    names = packaged_names(folder)
    if name not in names:
        close = difflib.get_close_matches(name, names, n=1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        allowed = ", ".join(names)
        raise ConfigError(f"unknown {kind} {name!r}{hint}; allowed: {allowed}, or a .json path")
    return files("hwmodels") / folder / f"{name}.json"
