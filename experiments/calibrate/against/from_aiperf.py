"""Measured runs of AIPerf (`profile_export.jsonl`).

Besides what `traces.readers.aiperf` reads, the metrics of a record have `time_to_first_token` and
`request_latency` and mostly `inter_chunk_latency`, a list of gaps, all in milliseconds.

Source: ai-dynamo/aiperf, docs/tutorials/working-with-profile-exports.md.
"""

from typing import Any

from experiments.calibrate.against.file_times import MS_PER_S, FileTimes
from experiments.calibrate.against.measured_run import NANOSECONDS, MeasuredRows, MeasuredRun
from traces.options import shown
from traces.readers.aiperf import KEYS, LENGTHS
from traces.readers.json_lines import JsonLines
from traces.readers.reading import Reading

FIRST, WHOLE, GAPS = "time_to_first_token", "request_latency", "inter_chunk_latency"


def read_aiperf(reading: Reading) -> MeasuredRun:
    """Read the records.

    Raises:
        TraceFormatError: the file has another layout, or a record in it is damaged.
    """
    source = JsonLines(reading, KEYS)
    rows, times = MeasuredRows(reading, NANOSECONDS), FileTimes(reading, MS_PER_S)
    for line, record in source.rows():
        metadata, metrics = record["metadata"], record["metrics"] or {}
        if not isinstance(metadata, dict) or not isinstance(metrics, dict):
            why = f"metadata {shown(metadata)}: it and metrics must be objects"
            raise reading.refuse(line, why)
        lengths = {name: _value(metrics, name) for name in LENGTHS}
        is_failed = record.get("error") is not None or metadata.get("was_cancelled")
        if is_failed or lengths[LENGTHS[1]] in (None, 0):
            rows.fail()
            continue
        ttft_s = times.time_s(line, "", FIRST, _in_ms(reading, line, metrics, FIRST))
        whole_s = times.time_s(line, "", WHOLE, _in_ms(reading, line, metrics, WHOLE))
        gaps_s = None
        if GAPS in metrics:
            gaps_s = times.gaps_s(line, "", GAPS, _in_ms(reading, line, metrics, GAPS))
        decode_s = 0.0 if lengths[LENGTHS[1]] == 1 else whole_s - ttft_s
        start = metadata.get("request_start_ns")
        rows.add(line, "", lengths, start, ttft_s, decode_s, gaps_s)
    return rows.run("aiperf", source.sha256)


def _value(metrics: dict[str, Any], name: str) -> Any:
    metric = metrics.get(name)
    return metric.get("value") if isinstance(metric, dict) else metric


def _in_ms(reading: Reading, line: int, metrics: dict[str, Any], name: str) -> Any:
    """A metric's value, whose unit must be milliseconds if it is told."""
    metric = metrics.get(name)
    unit = metric.get("unit", "ms") if isinstance(metric, dict) else "ms"
    if unit != "ms":
        raise reading.refuse(line, f"unit of {name} {shown(unit)}: must be 'ms'")
    return _value(metrics, name)
