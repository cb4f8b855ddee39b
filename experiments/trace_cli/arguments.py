"""The command line of `flocksim-trace`."""

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.one_line_parser import OneLineParser
from experiments.schema.suggest import unknown_name
from experiments.trace_cli.writing import TARGETS
from sim.errors import ConfigError
from traces.options import MAX_TOKENS

COMMANDS = ("info", "validate", "convert", "synth", "compare")

_NUM_PLACES = {"info": (1, 1), "validate": (1, 1), "synth": (1, 1), "compare": (2, 2)}
"""Fewest and most files (or kinds, for synth); convert takes any number."""

_WHAT = {"synth": "one kind of trace", "compare": "two files", "convert": "at least one file"}

_SETTING = re.compile(r"(?:\+{0,2}|~)[A-Za-z_][\w.@]*=|~[A-Za-z_][\w.@]*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What was asked for; see the help text.

    Attributes:
        command: one of `COMMANDS`.
        places: files, or the kind of trace to generate.
        settings: `key=value` for the format and the transforms.
        formats: format of each file, or one of all; empty: guessed.
        out: file to write, or None.
        target: format to write, or None.
        figure: file for a figure, or None.
        seed: of what is drawn.
        block_tokens: tokens per KV block, or per block of a Mooncake file to write; None: default.
        is_json: print JSON.
        is_merging: make one trace of several files.
        is_lossy: write what the format cannot say without it.
        shows_all: list all faults.
    """

    command: str
    places: tuple[str, ...]
    settings: tuple[str, ...]
    formats: tuple[str, ...]
    out: Path | None
    target: str | None
    figure: Path | None
    seed: int
    block_tokens: int | None
    is_json: bool
    is_merging: bool
    is_lossy: bool
    shows_all: bool


def parse_arguments(arguments: Sequence[str]) -> Arguments:
    """Read the command line.

    Raises:
        ConfigError: it cannot be read.
    """
    command = arguments[0]
    if command not in COMMANDS:
        raise ConfigError(unknown_name("command", command, COMMANDS))
    given = parser_of(command).parse_intermixed_args(list(arguments[1:]))
    settings = tuple(word for word in given.words if _is_setting(word))
    places = tuple(word for word in given.words if not _is_setting(word))
    low, high = _NUM_PLACES.get(command, (1, 1000))
    if not low <= len(places) <= high:
        what = _WHAT.get(command, "one file")
        raise ConfigError(
            f"{command} takes {what}, got {len(places)} ({' '.join(places) or 'none'}); "
            "see flocksim-trace --help"
        )
    formats = tuple(getattr(given, "format", None) or ())
    if len(formats) not in (0, 1, len(places)):
        raise ConfigError(
            f"--format {' --format '.join(formats)}: must be given once, or once per file"
        )
    return Arguments(
        command=command,
        places=places,
        settings=settings,
        formats=formats,
        out=getattr(given, "out", None),
        target=getattr(given, "to", None),
        figure=getattr(given, "figure", None),
        seed=getattr(given, "seed", 0),
        block_tokens=getattr(given, "block_tokens", None),
        is_json=getattr(given, "json", False),
        is_merging=getattr(given, "merge", False),
        is_lossy=getattr(given, "lossy", False),
        shows_all=getattr(given, "all", False),
    )


def _is_setting(word: str) -> bool:
    """Whether a word is `key=value` or `~key`, and no file of that name."""
    return _SETTING.match(word) is not None and not Path(word).exists()


def parser_of(command: str) -> argparse.ArgumentParser:
    """What reads the words after `command`."""
    parser = OneLineParser(prog=f"flocksim-trace {command}", add_help=False, allow_abbrev=False)
    parser.add_argument("words", nargs="*")
    if command != "synth":
        parser.add_argument("--format", action="append")
    if command != "validate":
        parser.add_argument("--seed", type=_seed, default=0)
        parser.add_argument("--block-tokens", type=_block_tokens)
    if command in ("info", "validate", "compare"):
        parser.add_argument("--json", action="store_true")
    if command in ("info", "compare"):
        parser.add_argument("--figure", type=Path)
    if command in ("convert", "synth"):
        parser.add_argument("--out", type=Path, required=True)
        parser.add_argument("--to", choices=TARGETS)
        parser.add_argument("--lossy", action="store_true")
    if command == "convert":
        parser.add_argument("--merge", action="store_true")
    if command == "validate":
        parser.add_argument("--all", action="store_true")
    return parser


def _seed(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) < 2**63:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} must be an integer from 0 to 2**63 - 1")


def _block_tokens(text: str) -> int:
    if text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_TOKENS:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} must be an integer from 1 to {MAX_TOKENS:,}")
