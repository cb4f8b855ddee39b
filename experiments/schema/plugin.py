"""A part of a job that the configuration names by its class: `_target_` and keyword arguments.

Classes may live anywhere on the import path. The arguments are checked against the constructor
before anything is built, so that a mistyped option is never swallowed.
"""

import importlib
import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Union, get_args, get_origin

from experiments.schema.checks import refuse
from experiments.schema.constructor import constructor_hints, constructor_signature
from experiments.schema.section import refuse_unknown
from sim.errors import ConfigError, FlocksimError

TARGET = "_target_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """A class and the arguments to build it with.

    Attributes:
        key: section of the configuration it comes from, for messages.
        target: dotted path of the class.
        options: keyword arguments of its constructor.
    """

    key: str
    target: str
    options: Mapping[str, Any]

    def load_class(self) -> type[Any]:
        """The class.

        Raises:
            ConfigError: it cannot be imported.
        """
        module, _, name = self.target.rpartition(".")
        where = f"{self.key}.{TARGET}={self.target}"
        try:
            found = getattr(importlib.import_module(module), name)
        except FlocksimError:
            raise
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a module may do anything, even exit
            why = " ".join(str(error).split()) or type(error).__name__
            raise ConfigError(f"{where}: cannot load this class: {why}") from error
        if not isinstance(found, type):
            raise ConfigError(f"{where}: must be a class")
        return found

    def build(self, **more: Any) -> Any:
        """A new instance; `more` are arguments that do not come from the configuration.

        Raises:
            ConfigError: the constructor refuses the arguments.
            PolicyError: a constructor that is not ours raised.
        """
        from hydra.errors import InstantiationException
        from hydra.utils import instantiate

        from experiments.policy_errors import PolicyError, blame

        try:
            return instantiate({TARGET: self.target, **self.options, **more}, _convert_="all")
        except InstantiationException as error:
            cause = error.__cause__ or error
            if isinstance(cause, FlocksimError):
                raise cause from None
            line = blame(cause, [self])
            if line is not None:
                raise PolicyError(line) from cause
            why = f"{type(cause).__name__}: {' '.join(str(cause).split())}"
            raise ConfigError(f"{self.key}: cannot build {self.target}: {why}") from error


def read_plugin(
    key: str,
    values: Mapping[str, Any],
    *,
    method: str,
    common: tuple[str, ...] = (),
    supplied: tuple[str, ...] = (),
) -> Plugin:
    """Read a section with `_target_`.

    Args:
        key: name of the section.
        values: the section.
        method: what an instance must be able to do.
        common: keys of the section that are not for the constructor.
        supplied: arguments that are in `common` or come from elsewhere, not from the options.

    Raises:
        ConfigError: there is no such class, it lacks the method, or it does not take an option.
    """
    if TARGET not in values:
        raise ConfigError(f"{key}.{TARGET} is missing: it must name a class")
    options = {k: v for k, v in values.items() if k != TARGET and k not in common}
    plugin = Plugin(key=key, target=str(values[TARGET]), options=options)
    found = plugin.load_class()
    if not callable(getattr(found, method, None)):
        raise ConfigError(f"{key}.{TARGET}={plugin.target}: must have a method {method}()")
    parameters = constructor_parameters(found)
    taken = [name for name in parameters if name not in supplied]
    refuse_unknown(key, options, [*taken, *common, TARGET])
    for name, value in options.items():
        _check_type(f"{key}.{name}", value, parameters[name])
    for name, parameter in constructor_signature(found).parameters.items():
        is_needed = parameter.default is parameter.empty and name in taken
        if is_needed and name not in options:
            raise ConfigError(f"{key}.{name} is missing: {plugin.target} needs it")
    return plugin


def constructor_parameters(found: Callable[..., Any]) -> dict[str, Any]:
    """Names of the arguments a class is built with, and their annotations."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = constructor_signature(found).parameters.values()
    names = [parameter.name for parameter in parameters if parameter.kind in named]
    hints = constructor_hints(found)
    return {name: hints.get(name, Any) for name in names}


_PLAIN: dict[Any, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "an integer"),
    float: ((int, float), "a number"),
    str: ((str,), "a text"),
    type(None): ((type(None),), "null"),
}


def _check_type(key: str, value: Any, annotation: Any) -> None:
    """Refuse a plain value of another type than annotated; other annotations pass."""
    is_union = get_origin(annotation) in (Union, types.UnionType)
    members = get_args(annotation) if is_union else (annotation,)
    if any(member not in _PLAIN for member in members):
        return
    for member in members:
        accepted, _ = _PLAIN[member]
        if isinstance(value, accepted) and (member is bool or not isinstance(value, bool)):
            return
    raise refuse(key, value, " or ".join(_PLAIN[member][1] for member in members))
