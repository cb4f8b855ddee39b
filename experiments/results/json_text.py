"""JSON with one text per value: fixed key order, shortest exact floats, null for NaN."""

import json
import math
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import numpy as np


def json_text(value: Any) -> str:
    """Indented JSON in the given key order, ending in a newline."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def canonical_json(value: Any) -> str:
    """Compact JSON with sorted keys, for hashing."""
    return json.dumps(
        plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )


def plain(value: Any) -> Any:
    """The value in JSON's own types; NaN and infinities become None.

    Raises:
        TypeError: there is no JSON for it.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, PurePath):
        return str(value)
    if value is None or isinstance(value, str | int):
        return value
    raise TypeError(f"no JSON for {type(value).__name__}: {value!r}")
