"""One column of some rows, read: values, and which of them are bad."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from traces.options import MAX_TOKENS

BoolArray = npt.NDArray[np.bool_]

MAX_HASH_ID = 2**62

MAX_INTEGER = 10**18
"""Largest turn or priority."""

MIN_CLOCK, MAX_CLOCK = -(2**61), 2**62
"""Bounds of a time in its unit, as nanoseconds the years 1896 to 2116; no difference overflows."""

INTEGER_BOUNDS = {
    "prompt_tokens": (1, MAX_TOKENS),
    "output_tokens": (1, MAX_TOKENS),
    "turn": (0, MAX_INTEGER),
    "priority": (-MAX_INTEGER, MAX_INTEGER),
}
"""Least and largest value of the fields that hold integers."""

RULES = {field: f"an integer from {a:,} to {b:,}" for field, (a, b) in INTEGER_BOUNDS.items()}

HASH_RULE = f"integers from 0 to {MAX_HASH_ID:,}"


@dataclass(frozen=True, slots=True)
class FieldValues:
    """A field of m rows.

    Attributes:
        values: the values; anything where bad. For lists: their lengths. Shape (m,).
        is_bad: rows that break the rule. Shape (m,).
        rule: what a value must be.
        raw: what a row holds in the file, for messages.
        flat: for lists: the elements of all rows, of bad ones none.
    """

    values: npt.NDArray[Any]
    is_bad: BoolArray
    rule: str
    raw: Callable[[int], Any]
    flat: npt.NDArray[np.int64] | None = None


class LabelCodes:
    """Numbers names in the order in which they appear; no name is -1."""

    def __init__(self) -> None:
        self._codes: dict[Any, int] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names, by code."""
        return tuple(map(str, self._codes))

    def encode(self, names: list[Any]) -> npt.NDArray[np.int64]:
        """Codes of `names`; None and empty ones are none. Shape (len(names),)."""
        known = self._codes
        codes = [
            -1 if name is None or name == "" else known.setdefault(name, len(known))
            for name in names
        ]
        return np.array(codes, dtype=np.int64)
