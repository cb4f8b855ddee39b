"""Hydra's and OmegaConf's errors as one clear line with the names that would have been valid."""

import re
import traceback
from collections.abc import Sequence
from typing import Any

from experiments.composing import GROUPS, compose_config
from experiments.help_text import options_of
from experiments.schema.suggest import unknown_name

_NO_KEY = re.compile(
    r"Could not override '[^']+'|Key '[^']+' is not in struct|Error merging override"
)

_SWEEP = re.compile(r"Ambiguous value for argument|requires --multirun")

_GROUP_VALUE = "Config group override must be"

_NOT_A_MAPPING = "Cannot merge DictConfig with ListConfig"

_SWEEP_KIND = re.compile(r"does not support sweep type : (\w+)_SWEEP")

_SPECIAL = re.compile(r"^[^=]+=.*[^\w./:+-]")
"""An override whose value has characters that mean something to Hydra."""

_QUOTE = "or quote one value inside, for example \"trace.path='a=b c.jsonl'\""

_CHOICE = re.compile(r"[\w/]+=[\w/]+$|\+{0,2}trace@[\w.]+=\w+$|hydra\.searchpath=")

_NO_PART = re.compile(r"Could not override '(trace@[^']+)'")

_LABEL_OF_PART = re.compile(r"trace\.parts\.\w+\.(tenant|slo_class|priority|start_s)$")


def explain(error: Exception, overrides: Sequence[str] = ()) -> str | None:
    """One line for a user's mistake, None if the error is none of Hydra's or OmegaConf's.

    Args:
        error: what was raised while a configuration was composed or resolved.
        overrides: the command line, to list the keys valid under its choice of options.
    """
    from hydra.errors import HydraException, MissingConfigException, OverrideParseException
    from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

    if any(base.__module__.startswith("yaml.") for base in type(error).__mro__):
        return _broken_yaml(error)
    if isinstance(error, UnicodeDecodeError) and (path := _local_of(error, "full_path")):
        return f"{path}: is no UTF-8 ({error.reason} at byte {error.start})"
    if isinstance(error, UserWarning):
        return f"hydra.searchpath: {error}"
    if isinstance(error, MissingConfigException):
        return _missing_option(error)
    if isinstance(error, OverrideParseException):
        return _unreadable(error)
    if isinstance(error, MissingMandatoryValue):
        return f"{error.full_key} is not set: give {error.full_key}=..."
    if isinstance(error, HydraException):
        if _SWEEP.search(str(error)):
            return f"{_first_line(str(error))}: add -m for a sweep over several values, {_QUOTE}"
        if kind := _SWEEP_KIND.search(str(error)):
            name = kind.group(1).lower()
            given = next((item for item in overrides if f"={name}(" in item), f"{name}(...)")
            return f"{given}: a sweep takes values, as in seed=0,1 or seed=range(0,5), no {name}"
        if part := _NO_PART.search(str(error)):
            return _no_part(part.group(1))
        if _NOT_A_MAPPING in str(error):
            return f"{_composed_file(error)}:1: must hold keys with values, found a list"
        key = getattr(error.__cause__, "full_key", None)
        is_unknown = _NO_KEY.search(str(error)) is not None
        return _unknown_key(str(key), overrides) if is_unknown and key else _first_line(str(error))
    if isinstance(error, OmegaConfBaseException):
        where = f"{error.full_key}: " if error.full_key else ""
        return where + _first_line(str(error))
    if not _is_refused_by_hydra(error):
        return None
    override = _local_of(error, "override") if _GROUP_VALUE in str(error) else None
    given = f"{override.input_line}: " if override is not None else ""
    return given + _first_line(str(error))


def _unreadable(error: Any) -> str:
    """An override that Hydra's grammar refuses."""
    hint = "write key=value, for example seed=1"
    if _SPECIAL.match(error.override):
        hint += f", {_QUOTE}"
    why = _first_line(error.message, skip="Error parsing")
    return f"cannot read {error.override!r}: {hint} ({why})"


def _broken_yaml(error: Any) -> str:
    """File, line and what is wrong there."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        return " ".join(str(error).split())
    return f"{mark.name}:{mark.line + 1}: {error.problem or error.context}"


def _composed_file(error: Exception) -> str:
    """The file of a config group that Hydra was merging."""
    option = _local_of(error, "default")
    loaded = _local_of(error, "loaded")
    folder = str(getattr(loaded, "path", "")).removeprefix("file://")
    return f"{folder}/{getattr(option, 'config_path', 'configuration')}.yaml"


def _local_of(error: Exception, name: str) -> Any:
    """A local variable of the frames of Hydra that an error went through, None if there is none."""
    found = None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if str(frame.f_globals.get("__name__")).startswith("hydra."):
            found = frame.f_locals.get(name, found)
    return found


def _is_refused_by_hydra(error: Exception) -> bool:
    """Whether Hydra itself raised a ValueError, as it does for flags that exclude each other."""
    frames = list(traceback.walk_tb(error.__traceback__))
    module = str(frames[-1][0].f_globals.get("__name__")) if frames else ""
    return isinstance(error, ValueError) and module.partition(".")[0] == "hydra"


def _missing_option(error: Any) -> str:
    """A config group has no such option, or there is no such file."""
    if not error.missing_cfg_file or error.options is None:
        return _first_line(str(error))
    group, _, option = error.missing_cfg_file.rpartition("/")
    elsewhere = [other for other in GROUPS if option in options_of(other)]
    if group in GROUPS and elsewhere:
        return f"{group}={option}: is an option of {elsewhere[0]}; write {elsewhere[0]}={option}"
    return unknown_name("option", option, error.options, f"{group}={option}")


def _unknown_key(key: str, overrides: Sequence[str]) -> str:
    """No such key: list its neighbours under the options that the command line chose."""
    if key == "hydra" or key.startswith("hydra."):
        return f"unknown key {key}; flocksim --cfg hydra shows Hydra's own keys"
    section, _, name = key.rpartition(".")
    chosen = [item for item in overrides if _CHOICE.match(item)]
    neighbours: Any = None
    for attempt in (chosen, []):
        try:
            neighbours = compose_config(attempt, are_all_set=False)[0]
            break
        except Exception:
            continue
    parents: list[str] = []
    for part in section.split(".") if section else []:
        if not isinstance(neighbours, dict) or part not in neighbours:
            name = part
            break
        neighbours = neighbours[part]
        parents.append(part)
    where = ".".join(parents)
    if where == "trace" and name == "path":
        return _no_path(neighbours)
    if where == "trace.parts":
        return (
            f"unknown part of the trace: {name}; it has {', '.join(neighbours)}; to add one: "
            f"+trace@trace.parts.{name}.trace=KIND"
        )
    if _LABEL_OF_PART.match(key):
        return f"{key}: this part has none that could be changed; to add it: +{key}=..."
    if not isinstance(neighbours, dict):
        return f"unknown key {key}: {where} is a single value"
    if len(parents) > 1:
        whole = ".".join(parents)
        more = f"; to replace it as a whole: '~{whole}' '+{whole}={{...}}'"
        return unknown_name(f"key of {where}", name, neighbours) + more
    return unknown_name(f"key of {where}" if where else "key", name, neighbours)


def _no_part(key: str) -> str:
    """Another kind for a part that the chosen trace does not have."""
    if key.startswith("trace@parts."):
        return f"{key}: parts are in the section trace: write trace@trace.{key.partition('@')[2]}"
    return (
        f"{key}: the chosen trace has no such part; trace=mix has trace.parts.chat.trace and "
        "trace.parts.batch.trace, and +trace@trace.parts.NAME.trace=KIND adds one"
    )


def _no_path(section: Any) -> str:
    """A path for a trace that is generated."""
    from experiments.trace_cli.guess import file_formats

    kind = str(section.get("_target_", "")).rpartition(".")[2]
    return (
        f"trace.path: the chosen trace ({kind}) is generated and reads no file; choose the format "
        f"of the file first: trace=NAME with one of {', '.join(file_formats())}"
    )


def _first_line(message: str, skip: str = "\0") -> str:
    """First line that says something."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(skip)]
    return (telling or lines or ["no reason given"])[0]
