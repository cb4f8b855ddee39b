"""From a file or a kind and `key=value` to a source of a trace and its transforms."""

import inspect
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from experiments.composing import compose_config
from experiments.help_text import options_of
from experiments.hydra_errors import explain
from experiments.policy_errors import blaming
from experiments.schema.job import read_trace
from experiments.schema.plugin import Plugin
from experiments.schema.suggest import unknown_name
from experiments.trace_cli.guess import file_formats, guess_format
from experiments.trace_cli.progress import progress_of
from sim.errors import ConfigError
from sim.workload import Workload
from traces import build
from traces.readers.reading import Reading
from traces.schema import TraceTable
from traces.transforms import Transforms

NOT_TRANSFORMS = ("load",)
"""Keys of the section `trace` that only a whole job can use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A trace that can be read.

    Attributes:
        place: the file, or the kind that is generated.
        format: name of its option in the group `trace`.
        is_guessed: whether the format was told from the content.
        plugin: its class with its options.
        transforms: what it goes through.
    """

    place: str
    format: str
    plugin: Plugin
    transforms: Transforms
    is_guessed: bool = False

    @property
    def asked_transforms(self) -> dict[str, Any]:
        """Transforms that are not left at their default."""
        return {name: getattr(self.transforms, name) for name in self.transforms.names}

    def load(self, seed: int) -> TraceTable:
        """Read or generate the trace, without transforms; a strict pass.

        Raises:
            TraceFormatError: the file breaks its format.
            ConfigError: an option is out of range.
        """
        built = self.plugin.build()
        errors = build.one_line_errors()
        with blaming([self.plugin]), errors, progress_of(self.place) as progress:
            if not callable(getattr(built, "read", None)):
                table: TraceTable = built.load(seed)
                return table
            return read_pass(built, Reading(self.place, progress), seed)


def read_pass(built: Any, reading: Reading, seed: int) -> TraceTable:
    """One pass over a file; the seed goes to formats that draw something."""
    takes_seed = "seed" in inspect.signature(built.read).parameters
    table: TraceTable = built.read(reading, seed) if takes_seed else built.read(reading)
    return table


def file_source(place: str, name: str | None, settings: Sequence[str]) -> Source:
    """The source for a file or directory.

    Args:
        place: path.
        name: format, None to tell it from the content.
        settings: `key=value` of the format and of transforms.

    Raises:
        ConfigError: there is no such file, format, key or value.
    """
    if not Path(place).exists():
        raise ConfigError(f"{place}: no such file")
    if name is not None and name not in options_of("trace"):
        raise ConfigError(unknown_name("format", name, file_formats()))
    chosen = guess_format(place) if name is None else name
    section = _section(chosen, settings)
    if "path" not in section:
        raise ConfigError(f"--format {chosen}: is generated and reads no file; see synth")
    if section["path"] != "???":
        raise ConfigError(
            f"path={section['path']} has no effect: the file is {place}; leave it out"
        )
    return replace(_source(place, chosen, {**section, "path": place}), is_guessed=name is None)


def kind_source(name: str, settings: Sequence[str]) -> Source:
    """The source that generates a kind of trace; raises as `file_source`."""
    formats = file_formats()
    if name in formats:
        raise ConfigError(f"{name}: reads a file and is not generated; see convert")
    kinds = [option for option in options_of("trace") if option not in formats]
    if name not in kinds:
        raise ConfigError(unknown_name("kind", name, kinds))
    return _source(name, name, _section(name, settings))


def transformed(table: TraceTable, source: Source, seed: int) -> tuple[TraceTable, Workload]:
    """The table after the transforms asked for, and the valid workload that it is.

    Raises:
        ConfigError: nothing is left, or what is left is no workload.
    """
    return build.transformed(table, seed=seed, **asdict(source.transforms))


def _section(name: str, settings: Sequence[str]) -> dict[str, Any]:
    """The section `trace` of a configuration with that option and these values."""
    overrides = [f"trace={name}", *map(_override, settings)]
    try:
        config, _ = compose_config(overrides, are_all_set=False)
    except Exception as error:
        line = explain(error, overrides)
        if line is None:
            raise
        raise ConfigError(line) from None
    section = dict(config["trace"])
    for key in NOT_TRANSFORMS:
        if section.pop(key, None) is not None:
            raise ConfigError(f"{key}: a trace alone cannot use it; give it to flocksim")
    return section


def _override(setting: str) -> str:
    """`key=value` as an override of the section `trace`."""
    key = setting.lstrip("+~")
    sign = setting.removesuffix(key)
    if key.startswith("trace@"):
        return f"{sign}trace@trace.{key.removeprefix('trace@').removeprefix('trace.')}"
    return f"{sign}{key}" if key.startswith("trace.") else f"{sign}trace.{key}"


def _source(place: str, name: str, section: dict[str, Any]) -> Source:
    for key, value in section.items():
        if value == "???":
            raise ConfigError(f"{key} is not set: give {key}=...")
    plugin, options = read_trace({"trace": section})
    transforms = Transforms(**asdict(options))
    return Source(place=place, format=name, plugin=plugin, transforms=transforms)
