"""A growing column of names, held as codes in order of first use."""

from array import array
from typing import Any

import numpy as np

from sim.workload import IntArray, Labels
from traces.options import shown
from traces.readers.json_lines import Bad

MAX_CHARACTERS = 200


class LabelColumn:
    """Names of the rows so far."""

    def __init__(self) -> None:
        self._codes = array("q")
        self._code_of: dict[str, int] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._code_of

    def add(self, name: str) -> None:
        """Append a row."""
        self._codes.append(self._code_of.setdefault(name, len(self._code_of)))

    @property
    def codes(self) -> IntArray:
        """Number of each row's name. Shape (n,)."""
        return np.frombuffer(self._codes, dtype=np.int64)

    @property
    def labels(self) -> Labels:
        """The whole column."""
        return Labels(self.codes, tuple(self._code_of))


def why_not_label(row: dict[str, Any], key: str) -> Bad | None:
    """What is wrong with the name under `key`, None if nothing is."""
    name = row[key]
    if type(name) is str and 1 <= len(name) <= MAX_CHARACTERS and name.isprintable():
        return None
    allowed = f"a text of 1 to {MAX_CHARACTERS} printable characters"
    return Bad(key, f"{key} {shown(name)}: must be {allowed}")
