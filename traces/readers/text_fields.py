"""Fields of text: integers, times, names, lists of ids. Clean columns are read at once."""

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from traces.readers.field_values import (
    HASH_RULE,
    INTEGER_BOUNDS,
    MAX_CLOCK,
    MAX_HASH_ID,
    MIN_CLOCK,
    RULES,
    BoolArray,
    FieldValues,
    LabelCodes,
)

Texts = list[str]

_MAX_DIGITS = 19

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)

# Years outside this century and the last would overflow nanoseconds in 64 bits.
_DATE = re.compile(
    r"((?:19|20)\d\d-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)"
    r"(?:(Z)|([+-])(\d\d):?([0-5]\d))?",
    re.ASCII,
)

_NO_DECIMALS = str.maketrans("", "", "0123456789.+-eE")

_SEPARATORS = str.maketrans("[](){},;|", " " * 9)


def text_field(field: str, texts: Texts, unit: str, labels: LabelCodes | None) -> FieldValues:
    """One field of some rows.

    Args:
        field: one of `traces.readers.column_options.FIELDS`.
        texts: what the rows hold. Shape (m,).
        unit: unit of times.
        labels: numbers the names of a field that holds names.
    """
    if labels is not None:
        codes = labels.encode(texts)
        return FieldValues(codes, np.zeros(len(texts), np.bool_), "a name", texts.__getitem__)
    if field == "hash_ids":
        return _ids(texts)
    if field != "arrival_s":
        low, high = INTEGER_BOUNDS[field]
        values, is_bad = _integers(texts, low, high)
        return FieldValues(values, is_bad, RULES[field], texts.__getitem__)
    if unit == "iso8601":
        values, is_bad = _dates(texts)
        rule = "a date and time like 2023-11-16 18:17:03.98"
        return FieldValues(values, is_bad, rule, texts.__getitem__)
    times, is_bad = _times(texts)
    return FieldValues(times, is_bad, f"a number of {unit}", texts.__getitem__)


def _clean_integers(texts: Texts) -> npt.NDArray[np.int64] | None:
    """The values if all are plain digits, else None."""
    joined = "".join(texts)
    if not (joined.isdigit() and joined.isascii()) or "" in texts:
        return None
    if max(map(len, texts)) > _MAX_DIGITS:
        return None
    try:
        return np.array(list(map(int, texts)), dtype=np.int64)
    except OverflowError:
        return None


def _clean_numbers(texts: Texts) -> npt.NDArray[np.float64] | None:
    """The values if all are plain decimal numbers, else None."""
    if "".join(texts).translate(_NO_DECIMALS):
        return None
    try:
        return np.array(list(map(float, texts)))
    except ValueError:
        return None


def _integers(texts: Texts, low: int, high: int) -> tuple[npt.NDArray[np.int64], BoolArray]:
    values = _clean_integers(texts)
    if values is not None:
        return values, (values < low) | (values > high)
    values, is_bad = np.zeros(len(texts), np.int64), np.ones(len(texts), np.bool_)
    for i, text in enumerate(texts):
        value = _integer(text)
        if value is not None and low <= value <= high:
            values[i], is_bad[i] = value, False
    return values, is_bad


def _integer(text: str) -> int | None:
    """The value of an integer, also of one written like 12.0 or 1e3."""
    text = text.strip()
    if len(text) > 40 or not _NUMBER.fullmatch(text):
        return None
    if text.lstrip("+-").isdigit():
        return int(text)
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 2**53 else None


def _times(texts: Texts) -> tuple[npt.NDArray[Any], BoolArray]:
    """Times as integers where all are, so that nanoseconds since an epoch stay exact."""
    clean = _clean_integers(texts)
    if clean is not None:
        return clean, clean > MAX_CLOCK
    quick = _clean_numbers(texts)
    if quick is not None:
        return quick, ~((quick >= MIN_CLOCK) & (quick <= MAX_CLOCK))
    values, is_bad = np.zeros(len(texts)), np.ones(len(texts), np.bool_)
    for i, text in enumerate(texts):
        if _NUMBER.fullmatch(text.strip()):
            values[i] = float(text)
            is_bad[i] = not MIN_CLOCK <= values[i] <= MAX_CLOCK
    return values, is_bad


def _dates(texts: Texts) -> tuple[npt.NDArray[np.int64], BoolArray]:
    """Nanoseconds since 1970; dates without a zone are UTC."""
    try:
        stamps = np.array([_DATE.sub(r"\1T\2", text.strip()) for text in texts])
        zones_ns = [_zone_ns(text.strip()) for text in texts]
        times = stamps.astype("datetime64[ns]").astype(np.int64)
        return times - np.array(zones_ns, dtype=np.int64), np.zeros(len(texts), np.bool_)
    except ValueError:
        if len(texts) == 1:
            return np.zeros(1, np.int64), np.ones(1, np.bool_)
    rows = [_dates([text]) for text in texts]
    return np.concatenate([row[0] for row in rows]), np.concatenate([row[1] for row in rows])


def _zone_ns(text: str) -> int:
    """How far the date's zone is ahead.

    Raises:
        ValueError: the text is no date.
    """
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError(text)
    if match[4] is None:
        return 0
    minutes = 60 * int(match[5]) + int(match[6])
    return (-minutes if match[4] == "-" else minutes) * 60_000_000_000


def _ids(texts: Texts) -> FieldValues:
    """Lists of ids separated by blanks, commas or semicolons, in brackets or not."""
    parts = [text.translate(_SEPARATORS).split() for text in texts]
    is_bad = np.array([not _are_ids(row) for row in parts], dtype=np.bool_)
    good = [[] if bad else row for row, bad in zip(parts, is_bad.tolist(), strict=True)]
    flat = np.array([int(text) for row in good for text in row], dtype=np.int64)
    counts = np.array(list(map(len, good)), dtype=np.int64)
    rule = f"{HASH_RULE}, separated by blanks, commas or semicolons"
    return FieldValues(counts, is_bad, rule, texts.__getitem__, flat)


def _are_ids(texts: Texts) -> bool:
    joined = "".join(texts)
    if not joined:
        return True
    is_digits = joined.isdigit() and joined.isascii() and max(map(len, texts)) <= _MAX_DIGITS
    return is_digits and max(map(int, texts)) <= MAX_HASH_ID
