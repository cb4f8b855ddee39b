"""Sections with `_target_` inside the options of another class: checked alike, and named in errors.

Building one is put off to the class around it, by a section whose `_target_` is `build_nested`.
"""

from collections.abc import Mapping
from typing import Any

from experiments.schema.plugin import TARGET, Plugin
from sim.errors import ConfigError, FlocksimError
from traces.synthetic.mix import in_part


def nested_section(plugin: Plugin, options: Mapping[str, Any]) -> dict[str, Any]:
    """The section that builds `plugin` with `options` inside another class."""
    target = f"{build_nested.__module__}.{build_nested.__name__}"
    return {TARGET: target, "key": plugin.key, "target": plugin.target, "options": dict(options)}


def build_nested(key: str, target: str, options: Mapping[str, Any]) -> Any:
    """An instance of the class `target`.

    Raises:
        ConfigError: the constructor refuses the options; begins with `key`.
    """
    found = Plugin(key=key, target=target, options=options).load_class()
    try:
        return found(**options)
    except FlocksimError as error:
        raise ConfigError(in_part(key, str(error))) from None
    except Exception as error:  # the class may be anybody's
        why = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise ConfigError(f"{key}: cannot build {target}: {why}") from error
