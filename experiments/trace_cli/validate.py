"""`flocksim-trace validate`: every fault of a trace."""

from collections.abc import Mapping
from typing import Any

from experiments.cli import EXIT_OK
from experiments.policy_errors import blaming
from experiments.results.json_text import json_text
from experiments.trace_cli.arguments import Arguments
from experiments.trace_cli.progress import progress_of
from experiments.trace_cli.sources import Source, file_source, read_pass
from sim.errors import ConfigError, TraceFormatError
from traces.prefix_compress import compress
from traces.readers.reading import FaultFinding
from traces.schema import TraceTable

EXIT_FAULTS = 1
NUM_SHOWN = 20
"""Faults of each kind that are listed."""

MAX_SHOWN = 1_000_000
"""Faults of each kind that `--all` lists, which is what the memory holds."""

WHOLE_FILE, WHOLE_TRACE = "file", "workload"
"""Kinds of what makes the rest unreadable, and of rows that contradict one another."""


def validate(asked: Arguments) -> int:
    """Read all of the trace and list its faults; returns the exit code."""
    source = file_source(
        asked.places[0], asked.formats[0] if asked.formats else None, asked.settings
    )
    if source.asked_transforms:
        names = ", ".join(source.asked_transforms)
        raise ConfigError(f"{names}: validate reads the file as it is, without transforms")
    found = FaultFinding(source.place, limit=MAX_SHOWN if asked.shows_all else NUM_SHOWN)
    table = _read(source, found)
    num_faults = sum(found.counts.values())
    if asked.is_json:
        print(json_text(_document(source, found, table)), end="")
    else:
        for line in _lines(source, found, table, asked.shows_all):
            print(line)
    return EXIT_FAULTS if num_faults else EXIT_OK


def _read(source: Source, found: FaultFinding) -> TraceTable | None:
    """The good rows; None where the rest could not be read."""
    built = source.plugin.build()
    with blaming([source.plugin]), progress_of(source.place) as found.progress:
        try:
            can_go_on = callable(getattr(built, "read", None))
            table = read_pass(built, found, 0) if can_go_on else built.load(0)
        except TraceFormatError as error:
            found.fault(error.line, WHOLE_FILE, error.why)
            return None
    if table.num_requests and not found.counts:
        try:
            compress(table).validate()
        except ValueError as error:
            found.fault(0, WHOLE_TRACE, " ".join(str(error).split()))
    return table


def _lines(
    source: Source, found: FaultFinding, table: TraceTable | None, shows_all: bool
) -> list[str]:
    lines = []
    for fault in found.faults:
        where = f"{source.place}:{fault.line}" if fault.line else source.place
        lines.append(f"{where}: {fault.why}")
    counts = found.counts
    if counts:
        kinds = ", ".join(f"{number:,} of {kind}" for kind, number in counts.items())
        num_good = 0 if table is None else table.num_requests
        good = "1 row is good" if num_good == 1 else f"{num_good:,} rows are good"
        rest = "the rest could not be read" if table is None else good
        lines.append(f"{source.place}: {_faults(sum(counts.values()))}: {kinds}; {rest}")
        if sum(counts.values()) > len(found.faults):
            more = f"{NUM_SHOWN} of each kind are listed; --all lists all of them"
            lines.append(f"  {MAX_SHOWN:,} of each kind are listed" if shows_all else f"  {more}")
        return lines
    assert table is not None
    return [_facts(source, table, found.skipped)]


def _faults(number: int) -> str:
    return "1 fault" if number == 1 else f"{number:,} faults"


def _facts(source: Source, table: TraceTable, skipped: Mapping[str, int]) -> str:
    n = table.num_requests
    line = f"{source.place}: no faults; {source.format}, {n:,} requests"
    if n:
        span_s = float(table.arrival_s[-1] - table.arrival_s[0])
        prompts, outputs = int(table.prompt_tokens.sum()), int(table.output_tokens.sum())
        line += f" over {span_s:,.6g} s, {prompts:,} prompt and {outputs:,} output tokens"
    for reason, number in skipped.items():
        line += f"; left out: {number:,} ({reason})"
    return line


def _document(source: Source, found: FaultFinding, table: TraceTable | None) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "format": source.format,
        "is_valid": not found.counts,
        "num_faults": sum(found.counts.values()),
        "faults_by_kind": dict(found.counts),
        "faults": [{"line": f.line, "kind": f.kind, "why": f.why} for f in found.faults],
        "num_good_rows": None if table is None else table.num_requests,
        "skipped": dict(found.skipped),
    }
