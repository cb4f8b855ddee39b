"""Records of AIPerf (`profile_export.jsonl`): the requests that it sent.

A line is an object with `metadata` (`request_start_ns` since 1970, `x_correlation_id` of the
conversation, `turn_index`, `was_cancelled`), `metrics` (`input_sequence_length` and
`output_sequence_length`, each `{"value": tokens, "unit": "tokens"}`) and `error` (null: none).
Lines are in the order in which requests ended. A request failed if it has an error, was cancelled
or has no output. The file does not say how many requests were in flight.

Source: ai-dynamo/aiperf, docs/tutorials/working-with-profile-exports.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from traces.options import require_bool, require_path, shown
from traces.readers.json_lines import JsonLines
from traces.readers.reading import Reading
from traces.readers.recorded_arrivals import RecordedArrivals
from traces.readers.replayed_rows import ReplayedRows
from traces.schema import TraceTable

KEYS = ("metadata", "metrics")

LENGTHS = ("input_sequence_length", "output_sequence_length")


@dataclass(frozen=True, slots=True, kw_only=True)
class AiperfTrace:
    """The records of a run of AIPerf.

    Attributes:
        path: the JSON lines file.
        skip_failed: leave out failed requests instead of refusing them.
        rate_per_s: arrivals at this mean rate take the place of the recorded times.
        arrivals: their process (`traces.synthetic.arrivals`); null is Poisson with a rate.
        closed_loop: whether a fixed number of users take the requests in order instead.
        concurrency: how many, with a closed loop.
    """

    path: str | Path
    skip_failed: bool = False
    rate_per_s: float | None = None
    arrivals: str | Mapping[str, Any] | None = None
    closed_loop: bool = False
    concurrency: int | None = None

    def __post_init__(self) -> None:
        require_path("trace.path", self.path)
        require_bool("trace.skip_failed", self.skip_failed)
        self._arrivals()

    def load(self, seed: int) -> TraceTable:
        """Read the file; `seed` is for arrivals that are not the recorded ones."""
        return self.read(Reading(self.path), seed)

    def read(self, reading: Reading, seed: int = 0) -> TraceTable:
        """Read the file in one pass.

        Raises:
            TraceFormatError: the file breaks its format, in a strict pass at the first bad line.
        """
        source = JsonLines(reading, KEYS)
        rows = ReplayedRows(reading, self.skip_failed, num_ticks=1_000_000_000)
        for line, record in source.rows():
            metadata, metrics = record["metadata"], record["metrics"]
            if not isinstance(metadata, dict) or not isinstance(metrics, dict | None):
                why = f"metadata {shown(metadata)}: it and metrics must be objects"
                reading.fault(line, "metadata", why)
                continue
            lengths = {name: _value(metrics or {}, name) for name in LENGTHS}
            is_failed = record.get("error") is not None or metadata.get("was_cancelled")
            if is_failed or lengths["output_sequence_length"] in (None, 0):
                rows.fail(line)
                continue
            start = metadata.get("request_start_ns")
            faults = []
            if type(start) is not int:
                why = f"request_start_ns {shown(start)}: must be an integer"
                faults.append(("request_start_ns", why))
                start = None
            session, turn = metadata.get("x_correlation_id"), metadata.get("turn_index")
            rows.add(line, lengths, start=start, session=session, turn=turn, faults=faults)
        options = {"skip_failed": self.skip_failed}
        return rows.table("aiperf", source.sha256, self._arrivals(), seed, options, None)

    def _arrivals(self) -> RecordedArrivals:
        return RecordedArrivals(self.rate_per_s, self.arrivals, self.closed_loop, self.concurrency)


def _value(metrics: dict[str, Any], name: str) -> Any:
    metric = metrics.get(name)
    return metric.get("value") if isinstance(metric, dict) else metric
