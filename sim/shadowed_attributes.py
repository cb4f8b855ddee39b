"""Attributes of compiled classes that a subclass hides, found before they mislead."""

from typing import Any

from sim.compiled import SWITCH
from sim.errors import ConfigError


def refuse_shadowed(part: object) -> None:
    """Refuse a subclass of a compiled class that puts something in the place of its attributes.

    Compiled code reads attributes where they lie; a property or a value of the subclass would be
    seen by plain Python alone. What an interface declares may be said by a class.

    Raises:
        ConfigError: names the class and the attribute.
    """
    bases = type(part).__mro__
    declared = {name for base in bases if not _is_compiled(base) for name in _annotations(base)}
    for name in getattr(type(part), "__mypyc_attrs__", ()):
        base = next((base for base in bases if name in vars(base)), object)
        if base is object or _is_compiled(base):
            continue
        if isinstance(vars(base)[name], property) or (
            name not in declared and _value_inside(part, name) != getattr(part, name)
        ):
            raise ConfigError(
                f"{base.__qualname__}.{name} hides an attribute of a compiled class from the "
                f"engine: set it in __init__, or run with {SWITCH}=0"
            )


def _is_compiled(base: type) -> bool:
    return "__mypyc_attrs__" in vars(base)


def _annotations(base: type) -> dict[str, Any]:
    found: dict[str, Any] = vars(base).get("__annotations__", {})
    return found


def _value_inside(part: object, name: str) -> Any:
    """The attribute as compiled code sees it."""
    for base in type(part).__mro__:
        if _is_compiled(base) and name in vars(base):
            return vars(base)[name].__get__(part)
    return None
