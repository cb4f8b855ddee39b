"""Short forms of length distributions: `256` is fixed, `1-8` is uniform, a mapping stays."""

import re
from collections.abc import Mapping
from typing import Any, get_origin

from experiments.schema.plugin import constructor_parameters

_RANGE = re.compile(r"(\d+)-(\d+)")


def expand_lengths(source: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` with short forms spelled out, for the arguments of `source` that are mappings."""
    parameters = constructor_parameters(source)
    return {
        name: _expanded(value) if get_origin(parameters.get(name)) is Mapping else value
        for name, value in values.items()
    }


def _expanded(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return {"kind": "fixed", "value": value}
    if isinstance(value, str) and (bounds := _RANGE.fullmatch(value)):
        return {"kind": "uniform", "low": int(bounds[1]), "high": int(bounds[2])}
    return value
