"""Annotations of compiled classes, which keep none at run time: their sources tell."""

import ast
import sys
from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Any, get_type_hints

from sim.compiled import sources_root


def constructor_hints(found: Callable[..., Any]) -> dict[str, Any]:
    """Annotations of the arguments that a class is built with; those that cannot be told lack.

    Args:
        found: a class, or another callable with an `__init__`.
    """
    owner = _owner(found)
    if owner is not None and is_compiled(owner.__module__):
        return _from_source(owner)
    try:
        return get_type_hints(found.__init__)
    except (NameError, TypeError):
        return {}


def is_compiled(module: str) -> bool:
    """Whether a module that is imported is machine code."""
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return file.endswith(EXTENSION_SUFFIXES[0])


def _owner(found: Callable[..., Any]) -> type | None:
    """The class whose constructor is run."""
    if not isinstance(found, type):
        return None
    return next((base for base in found.__mro__ if "__init__" in vars(base)), None)


def _from_source(owner: type) -> dict[str, Any]:
    path = sources_root().joinpath(*owner.__module__.split(".")).with_suffix(".py")
    names = vars(sys.modules[owner.__module__])
    hints = {}
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.ClassDef) and statement.name == owner.__name__:
            for argument in _constructor_arguments(statement):
                if argument.annotation is not None:
                    try:
                        hints[argument.arg] = eval(ast.unparse(argument.annotation), names)
                    except NameError:  # imported for type checkers only
                        hints[argument.arg] = Any
    return hints


def _constructor_arguments(statement: ast.ClassDef) -> list[ast.arg]:
    for part in statement.body:
        if isinstance(part, ast.FunctionDef) and part.name == "__init__":
            return [*part.args.args, *part.args.kwonlyargs]
    return []
