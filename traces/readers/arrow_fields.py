"""Fields of an Arrow table: integers, times, names, lists of ids, whatever types hold them."""

from typing import Any

import numpy as np
import numpy.typing as npt

from traces.readers.column_options import UNITS
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
from traces.readers.text_fields import text_field


def why_wrong_type(field: str, arrow: Any, unit: str) -> str | None:
    """What type a column must have to be `field`, None if it has it."""
    from pyarrow import types

    if types.is_null(arrow):
        return None
    value = arrow.value_type if types.is_dictionary(arrow) else arrow
    is_text = types.is_string(value) or types.is_large_string(value)
    is_number = types.is_integer(arrow) or types.is_floating(arrow)
    if field in ("tenant", "slo_class", "session_id"):
        return None if is_text or types.is_integer(value) else "text or an integer"
    if field == "hash_ids":
        is_list = types.is_list(arrow) or types.is_large_list(arrow)
        is_list = is_list or types.is_fixed_size_list(arrow)
        if is_list and (types.is_integer(arrow.value_type) or types.is_null(arrow.value_type)):
            return None
        return None if is_text else "a list of integers, or text"
    if field == "arrival_s":
        if unit == "iso8601":
            return None if is_text or types.is_timestamp(arrow) else "a timestamp or text"
        return None if is_number else f"a number of {unit} (trace.time_unit)"
    return None if is_number else "an integer"


def arrow_field(field: str, column: Any, unit: str, labels: LabelCodes | None) -> FieldValues:
    """One field of a batch of rows.

    Args:
        field: one of `traces.readers.column_options.FIELDS`.
        column: an Arrow array of a type that `why_wrong_type` allows. Shape (m,).
        unit: unit of times.
        labels: numbers the names of a field that holds names.
    """
    import pyarrow as pa

    if pa.types.is_null(column.type):
        column = column.cast(pa.string())
    if labels is not None:
        return _names(column, labels)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if field == "hash_ids" and not _is_text(column):
        return _lists(column)
    if _is_text(column):
        texts = ["" if text is None else text for text in column.to_pylist()]
        return text_field(field, texts, unit, None)
    if field == "arrival_s":
        return _times(column, unit)
    low, high = INTEGER_BOUNDS[field]
    values, is_bad = _numbers(column, low, high)
    is_bad |= np.floor(values) != values
    values = np.where(is_bad, 0, values).astype(np.int64)
    return FieldValues(values, is_bad, RULES[field], lambda i: column[i].as_py())


def _numbers(column: Any, low: int, high: int) -> tuple[npt.NDArray[Any], BoolArray]:
    """Values, 0 where bad, and which are null or outside [low, high]."""
    values = column.fill_null(0).to_numpy(zero_copy_only=False)
    is_bad = column.is_null().to_numpy(zero_copy_only=False) | ~((values >= low) & (values <= high))
    return np.where(is_bad, 0, values), is_bad


def _times(column: Any, unit: str) -> FieldValues:
    """Times in `unit`; timestamps in nanoseconds since 1970."""
    import pyarrow as pa

    def raw(i: int) -> Any:
        return str(column[i])

    if not pa.types.is_timestamp(column.type):
        values, is_bad = _numbers(column, MIN_CLOCK, MAX_CLOCK)
        exact = np.float64 if values.dtype.kind == "f" else np.int64
        return FieldValues(values.astype(exact), is_bad, f"a number of {unit}", raw)
    factor = UNITS["ns"] // UNITS[column.type.unit]
    ticks = column.cast(pa.int64())
    values, is_bad = _numbers(ticks, MIN_CLOCK // factor, MAX_CLOCK // factor)
    return FieldValues(values * factor, is_bad, "a timestamp of the years 1897 to 2115", raw)


def _is_text(column: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(column.type) or types.is_large_string(column.type))


def _names(column: Any, labels: LabelCodes) -> FieldValues:
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    codes = np.append(labels.encode(column.dictionary.to_pylist()), -1)  # the last is null's
    indices = column.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    is_bad = np.zeros(len(indices), dtype=np.bool_)
    return FieldValues(codes[indices], is_bad, "a name", lambda i: column[i].as_py())


def _lists(column: Any) -> FieldValues:
    """Lists of ids; a null is an empty one."""
    import pyarrow as pa

    if pa.types.is_null(column.type.value_type):
        column = column.cast(pa.list_(pa.int64()))
    elif pa.types.is_fixed_size_list(column.type):
        column = column.cast(pa.list_(column.type.value_type))
    counts = column.value_lengths().fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    elements = column.flatten()
    flat = elements.fill_null(0).to_numpy(zero_copy_only=False)
    is_wrong = elements.is_null().to_numpy(zero_copy_only=False)
    is_wrong = is_wrong | ~((flat >= 0) & (flat <= MAX_HASH_ID))
    row = np.repeat(np.arange(len(counts)), counts)
    is_bad = np.zeros(len(counts), dtype=np.bool_)
    is_bad[row[is_wrong]] = True
    if is_wrong.any():
        flat = flat[~is_bad[row]]
        counts = np.where(is_bad, 0, counts)
    return FieldValues(
        counts, is_bad, HASH_RULE, lambda i: column[i].as_py(), flat.astype(np.int64)
    )
