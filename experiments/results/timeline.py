"""timeline.json.gz: what every instance did, for Perfetto or chrome://tracing.

One process per instance: its runs of steps as slices, its queue, batch and KV blocks as counters.
Requests have no slices of their own; requests.parquet has their times.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from experiments.results.atomic import write_atomically
from experiments.results.tables import run_columns
from sim.records import InstanceRecords, SimulationResult

MICROSECONDS = 1e6
"""The unit of time of the trace event format."""

Event = dict[str, Any]


def write_timeline(path: Path, result: SimulationResult) -> None:
    """Write all events; the same result gives the same bytes."""
    write_atomically(path, lambda temporary: _write(temporary, timeline_events(result)))


def timeline_events(result: SimulationResult) -> Iterator[Event]:
    """Events of the trace event format, instance by instance."""
    for index, instance in enumerate(result.instances):
        name = {"name": f"instance {index}"}
        yield {"ph": "M", "pid": index, "tid": 0, "name": "process_name", "args": name}
        yield from _instance_events(index, instance)


def _instance_events(index: int, instance: InstanceRecords) -> Iterator[Event]:
    columns = {name: values.tolist() for name, values in run_columns(instance).items()}
    for row in zip(*columns.values(), strict=True):
        run = dict(zip(columns, row, strict=True))
        start = run["start_s"] * MICROSECONDS
        yield {
            "ph": "X",
            "pid": index,
            "tid": 0,
            "name": _kind(run),
            "ts": start,
            "dur": run["end_s"] * MICROSECONDS - start,
            "args": {"steps": run["num_steps"], "prefill_tokens": run["prefill_tokens"]},
        }
        running = run["num_decodes"] + run["num_prefills"]
        for name, value in (
            ("waiting", run["num_waiting"]),
            ("running", running),
            ("KV blocks", run["used_blocks"]),
        ):
            yield {"ph": "C", "pid": index, "name": name, "ts": start, "args": {name: value}}


def _kind(run: dict[str, Any]) -> str:
    if not run["num_prefills"]:
        return "decode"
    return "mixed" if run["num_decodes"] else "prefill"


def _write(path: Path, events: Iterator[Event]) -> None:
    with path.open("wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed:
        packed.write(b'{"displayTimeUnit":"ms","traceEvents":[')
        for number, event in enumerate(events):
            packed.write(b",\n" if number else b"\n")
            packed.write(json.dumps(event, separators=(",", ":"), allow_nan=False).encode())
        packed.write(b"\n]}\n")
