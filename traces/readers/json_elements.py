"""JSON objects of a file one by one: the elements of a list, or one after the other."""

import json
from collections.abc import Iterator
from typing import Any

from traces.options import shown
from traces.readers.reading import Reading
from traces.readers.text_file import TextFile

_BLANK = " \t\r\n"


class JsonElements:
    """The objects of a file that is a list of objects, or objects in sequence (JSON lines too).

    Memory holds one object and the piece of the file that it is in.

    Args:
        reading: names the file.
        are_rows: whether a pass that looks for faults goes on after an object with a key twice.

    Attributes:
        num_objects: objects so far, those with a key twice too.
    """

    def __init__(self, reading: Reading, *, are_rows: bool = True) -> None:
        self._reading, self._are_rows = reading, are_rows
        self.num_objects = 0
        self._text = TextFile(reading)
        self._pieces = self._text.pieces()
        self._decoder = json.JSONDecoder(object_pairs_hook=self._with_keys)
        self._repeated: str | None = None
        self._buffer, self._at, self._line = "", 0, 1
        self._last_line = 1

    @property
    def sha256(self) -> str:
        """Digest of the content, after the last object."""
        return self._text.sha256

    def objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """The line on which each object begins, and the object; none has a key twice.

        Raises:
            TraceFormatError: as `TextFile.pieces`, or the file is no such JSON; in a strict pass
                also a key that appears twice.
        """
        is_list = self._peek() == "["
        if is_list:
            self._at += 1
        while (character := self._peek()) not in ("", "]"):
            if character != "{":
                found = shown(self._buffer[self._at : self._at + 20])
                raise self._reading.refuse(self._line, f"{found}: must be a JSON object")
            line = self._line
            row = self._object()
            self.num_objects += 1
            if self._repeated is None:
                yield line, row
            else:
                self._refuse_repeated(line, f"key {shown(self._repeated)} appears twice")
            if is_list and self._peek() == ",":
                self._at += 1
                if self._peek() == "]":
                    raise self._reading.refuse(self._line, "not valid JSON: comma before ]")
            elif is_list and self._peek() not in ("]", ""):
                raise self._reading.refuse(self._line, "not valid JSON: no comma between objects")
        self._end(is_list)

    def _refuse_repeated(self, line: int, why: str) -> None:
        if not self._are_rows:
            raise self._reading.refuse(line, why)
        self._reading.fault(line, "repeated key", why)

    def _end(self, is_list: bool) -> None:
        if is_list != (self._peek() == "]"):
            why = "list has no end" if is_list else "] without ["
            line = self._line if self._peek() else self._last_line
            raise self._reading.refuse(line, f"not valid JSON: {why}")
        self._at += is_list
        if self._peek():
            raise self._reading.refuse(self._line, "not valid JSON: text after the end of the list")

    def _peek(self) -> str:
        """The next character that is no blank; empty at the end."""
        while True:
            start = self._at
            while self._at < len(self._buffer) and self._buffer[self._at] in _BLANK:
                self._at += 1
            self._line += self._buffer.count("\n", start, self._at)
            if self._at < len(self._buffer):
                self._last_line = self._line
                return self._buffer[self._at]
            if not self._more():
                return ""

    def _object(self) -> dict[str, Any]:
        while True:
            self._repeated = None
            try:
                value, end = self._decoder.raw_decode(self._buffer, self._at)
            except json.JSONDecodeError as error:
                if self._more():
                    continue
                # Where the file is cut short, what follows its last text is no line of it.
                end = min(error.pos, len(self._buffer.rstrip(_BLANK)))
                line = self._line + self._buffer.count("\n", self._at, end)
                why = f"not valid JSON: {error.msg.removesuffix(' at')}"
                raise self._reading.refuse(line, why) from None
            except (ValueError, RecursionError) as error:
                raise self._reading.refuse(self._line, f"not valid JSON: {error}") from None
            self._line += self._buffer.count("\n", self._at, end)
            self._last_line = self._line
            self._at = end
            assert isinstance(value, dict)
            return value

    def _with_keys(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """An object as it is decoded; notes a key that appears twice."""
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            self._repeated = next(name for name in names if names.count(name) > 1)
        return found

    def _more(self) -> bool:
        """Add a piece of the file to the buffer; false at the end."""
        piece = next(self._pieces, None)
        if piece is None:
            return False
        self._buffer = self._buffer[self._at :] + piece[1].decode()
        self._at = 0
        return True
