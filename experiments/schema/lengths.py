"""Short forms of length distributions: `256` is fixed, `1-8` is uniform, a mapping stays.

They also hold for traces that are parts of another, which are checked on the way.
"""

import re
import types
from collections.abc import Mapping
from typing import Any, Union, get_args, get_origin

from experiments.schema.nested import nested_section
from experiments.schema.plugin import TARGET, constructor_parameters, read_plugin

_RANGE = re.compile(r"(\d+)-(\d+)")


def expand_lengths(
    source: type[Any], values: Mapping[str, Any], key: str = "trace"
) -> dict[str, Any]:
    """`values` with short forms spelled out, for the arguments of `source` that are mappings.

    An argument that is a number or a mapping, or a list of such, keeps its numbers.

    Args:
        source: the class.
        values: its options.
        key: section they come from, for messages about classes that they name.

    Raises:
        ConfigError: there is no such class, or it does not take an option.
    """
    parameters = constructor_parameters(source)
    return {
        name: _expanded(_with_nested(f"{key}.{name}", value), parameters.get(name))
        for name, value in values.items()
    }


def _with_nested(key: str, value: Any) -> Any:
    """`value` with every section inside it that names a class made ready to be built."""
    if not isinstance(value, Mapping):
        return value
    if TARGET not in value:
        return {name: _with_nested(f"{key}.{name}", item) for name, item in value.items()}
    plugin = read_plugin(key, value, method="load")
    return nested_section(plugin, expand_lengths(plugin.load_class(), plugin.options, key))


def _expanded(value: Any, annotation: Any) -> Any:
    if isinstance(value, list):
        (item, *_) = get_args(annotation) or (None,)
        return [_expanded(entry, item) for entry in value]
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if is_number and get_origin(annotation) is Mapping:
        return {"kind": "fixed", "value": value}
    is_length = get_origin(annotation) is Mapping or _is_number_or_mapping(annotation)
    if is_length and isinstance(value, str) and (bounds := _RANGE.fullmatch(value)):
        return {"kind": "uniform", "low": int(bounds[1]), "high": int(bounds[2])}
    return value


def _is_number_or_mapping(annotation: Any) -> bool:
    if get_origin(annotation) not in (Union, types.UnionType):
        return False
    members = get_args(annotation)
    return int in members and any(get_origin(member) is Mapping for member in members)
