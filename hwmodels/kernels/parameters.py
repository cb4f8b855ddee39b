"""Parameters of kernel models: their bounds, and their form as JSON values.

A kernel model is a frozen dataclass whose fields are its parameters: numbers, switches, None where
a limit does not apply, other such dataclasses, or tuples of them. The bounds below, set as metadata
of a field, catch mistaken units (microseconds, GB/s) as well as impossible values.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from types import MappingProxyType, NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from hwmodels.strict_json import as_object, check_keys, shown
from sim.errors import ConfigError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    ModelT = TypeVar("ModelT", bound=DataclassInstance)
else:
    ModelT = TypeVar("ModelT")

Bounds = Mapping[str, Any]


def _bounds(low: float, high: float) -> Bounds:
    return MappingProxyType({"low": low, "high": high})


SECONDS = _bounds(0.0, 1.0)
"""Fixed times of one kernel."""
RATE = _bounds(1e6, 1e18)
"""Bytes or FLOPs per second."""
COUNT = _bounds(1, 1e6)
"""Whole numbers: processors, tile sizes, GPUs."""
WEIGHT = _bounds(0.0, 1e3)
"""Factors without a unit."""
SHARE = _bounds(0.0, 1.0)
"""Parts of a whole."""
P_NORM = _bounds(1.0, 100.0)
"""Exponents that join two bounds: 1 adds them, 100 is close to their maximum."""
BYTES = _bounds(1.0, 1e18)
"""Amounts of memory."""


def check_parameters(model: "DataclassInstance") -> None:
    """Check every number of a model against the bounds in the metadata of its field.

    Raises:
        ConfigError: names the model's class, the parameter, its value and what is allowed.
    """
    for item in fields(model):
        value = getattr(model, item.name)
        low, high = item.metadata.get("low"), item.metadata.get("high")
        if low is None or high is None or value is None:
            continue
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not low <= value <= high:
            raise ConfigError(
                f"{type(model).__name__}: {item.name} must be from {low:g} to {high:g}, "
                f"found {shown(value)}"
            )


def parameter_names(model: "DataclassInstance", skipped: frozenset[str] = frozenset()) -> list[str]:
    """Names of all parameters of a model, nested ones dotted (`tiles.0.efficiency`), in order."""
    return [name for name, _ in _flat(to_values(model, skipped), "")]


def _flat(value: object, name: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        children: list[tuple[object, object]] = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))
    else:
        yield name, value
        return
    for key, child in children:
        yield from _flat(child, f"{name}.{key}" if name else f"{key}")


def to_values(model: "DataclassInstance", skipped: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The parameters of a model as JSON values, the fields in `skipped` left out."""
    return {
        item.name: _to_json(getattr(model, item.name))
        for item in fields(model)
        if item.name not in skipped
    }


def _to_json(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return to_values(value)
    if isinstance(value, tuple):
        return [_to_json(entry) for entry in value]
    return value


def from_values(
    where: str,
    model_class: type[ModelT],
    record: Mapping[str, object],
    given: Mapping[str, object] = MappingProxyType({}),
) -> ModelT:
    """Build a model from JSON values; the inverse of `to_values`.

    Args:
        where: names the record in messages.
        model_class: class of the model.
        record: one value per field that is not in `given`.
        given: fields that are no part of the record.

    Raises:
        ConfigError: a key is missing or unknown, or a value has the wrong type or size.
    """
    names = [item.name for item in fields(model_class) if item.name not in given]
    check_keys(where, record, names)
    hints = get_type_hints(model_class)
    values = {name: _from_json(f"{where}: {name}", hints[name], record[name]) for name in names}
    try:
        return model_class(**values, **given)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _from_json(where: str, hint: Any, value: object) -> object:
    if isinstance(hint, UnionType):
        choices = [choice for choice in get_args(hint) if choice is not NoneType]
        return None if value is None else _from_json(where, choices[0], value)
    if get_origin(hint) is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{where}: must be a list, found {shown(value)}")
        entry_hint = get_args(hint)[0]
        return tuple(
            _from_json(f"{where}: {index}", entry_hint, entry) for index, entry in enumerate(value)
        )
    if is_dataclass(hint):
        return from_values(where, hint, as_object(where, value))  # type: ignore[arg-type]
    if hint is float and type(value) is int:
        return float(value)
    if type(value) is not hint:
        allowed = {float: "a number", int: "a whole number", bool: "true or false"}.get(hint, hint)
        raise ConfigError(f"{where}: must be {allowed}, found {shown(value)}")
    return value
