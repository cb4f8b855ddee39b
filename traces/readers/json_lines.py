"""JSON lines: one object per line, no key twice; further keys are allowed and not read."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from traces.options import shown
from traces.readers.reading import Reading
from traces.readers.text_file import TextFile

MAX_ID = 2**62
"""Largest id or number of a row."""


class Bad(NamedTuple):
    """What is wrong with a row: the kind of fault (`reading.Fault`), and why."""

    kind: str
    why: str


class JsonLines:
    """The rows of a JSON lines file that have all the keys of a format, with their lines.

    Args:
        reading: told of lines that are no such row.
        keys: keys that every row must have.
    """

    def __init__(self, reading: Reading, keys: Sequence[str]) -> None:
        self._reading = reading
        self._keys = keys
        self._text = TextFile(reading)

    @property
    def sha256(self) -> str:
        """Digest of the content, after the last row."""
        return self._text.sha256

    def rows(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Line number and object of each good row.

        Raises:
            TraceFormatError: as `TextFile.pieces`; in a strict pass also the first bad row.
        """
        for line, text in self._text.lines():
            row = _parse(text, self._keys)
            if isinstance(row, Bad):
                self._reading.fault(line, *row)
            else:
                yield line, row


def why_not_whole(row: dict[str, Any], key: str, low: int) -> Bad | None:
    """What is wrong with the integer under `key`, None if it is from `low` to 2**62."""
    value = row[key]
    if type(value) is int and low <= value <= MAX_ID:
        return None
    return Bad(key, f"{key} {shown(value)}: must be an integer from {low} to 2**62")


def _parse(text: bytes, keys: Sequence[str]) -> dict[str, Any] | Bad:
    if not text.strip():
        return Bad("blank line", "blank line, must be a JSON object")
    try:
        row = json.loads(text.decode())
    except json.JSONDecodeError as error:
        # Where the line is cut short, its newline is the place that the error names.
        column = min(error.pos, len(error.doc.rstrip())) + 1
        what = f"{error.msg.removesuffix(' at')} at column {column}"
        return Bad("JSON", f"not valid JSON: {what}")
    except (ValueError, RecursionError) as error:
        return Bad("JSON", f"not valid JSON: {error}")
    if not isinstance(row, dict):
        return Bad("JSON", f"{shown(row)}: must be a JSON object with {', '.join(keys)}")
    # Every key brings a colon: as many colons as keys means that none is repeated.
    if text.count(b":") != len(row):
        repeated = _repeated_key(text)
        if repeated is not None:
            return Bad("repeated key", f"key {shown(repeated)} appears twice")
    missing = [key for key in keys if key not in row]
    if missing:
        what = ", ".join(map(repr, missing))
        what = f"keys {what} are" if len(missing) > 1 else f"key {what} is"
        return Bad("missing key", f"{what} missing, a row needs {', '.join(keys)}")
    return row


def _repeated_key(text: bytes) -> str | None:
    """A key that one object of a row names twice, None if there is none."""
    repeated: list[str] = []

    def note(pairs: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            repeated.append(next(name for name in names if names.count(name) > 1))

    json.loads(text.decode(), object_pairs_hook=note)
    return repeated[0] if repeated else None
