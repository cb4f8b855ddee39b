"""How a class is built: its signature and annotations, also where it is compiled.

Compiled classes keep no annotations and not every default at run time; their sources tell.
"""

import __future__

import ast
import inspect
import sys
from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Any, get_type_hints

from sim.compiled import sources_root


def constructor_signature(found: Callable[..., Any]) -> inspect.Signature:
    """Arguments that a class, or another callable, is called with."""
    source = _source_of(found)
    if source is None:
        return inspect.signature(found)
    signature = inspect.signature(source)
    return signature.replace(parameters=list(signature.parameters.values())[1:])  # less self


def constructor_hints(found: Callable[..., Any]) -> dict[str, Any]:
    """Annotations of these arguments; none if a name in them is not known at run time."""
    try:
        return get_type_hints(_source_of(found) or found.__init__)
    except (NameError, TypeError):
        return {}


def is_compiled(module: str) -> bool:
    """Whether a module that is imported is machine code."""
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return file.endswith(EXTENSION_SUFFIXES[0])


def _source_of(found: Callable[..., Any]) -> Callable[..., None] | None:
    """The constructor of a compiled class as its source has it, without what it does."""
    if not isinstance(found, type):
        return None
    owner = next((base for base in found.__mro__ if "__init__" in vars(base)), object)
    if not is_compiled(owner.__module__):
        return None
    path = sources_root().joinpath(*owner.__module__.split(".")).with_suffix(".py")
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.ClassDef) and statement.name == owner.__name__:
            for part in statement.body:
                if isinstance(part, ast.FunctionDef) and part.name == "__init__":
                    return _rebuilt(part, owner, str(path))
    return None


def _rebuilt(part: ast.FunctionDef, owner: type, path: str) -> Callable[..., None]:
    part.body = [ast.Pass(lineno=part.lineno, col_offset=0)]
    module = ast.Module(body=[part], type_ignores=[])
    code = compile(module, path, "exec", flags=__future__.annotations.compiler_flag)
    names = dict(vars(sys.modules[owner.__module__]))
    exec(code, names)
    constructor: Callable[..., None] = names["__init__"]
    return constructor
