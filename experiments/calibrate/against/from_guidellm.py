"""Measured runs of GuideLLM (`benchmarks.json`).

Besides what `traces.readers.guidellm` reads, a request has `time_to_first_token_ms` and
`inter_token_latency_ms`, the mean gap without the first token. (`time_per_output_token_ms` counts
the time to the first token too and is not read.) Single gaps are not recorded.

Source: vllm-project/guidellm, src/guidellm/schemas/request_stats.py.
"""

from typing import Any

from experiments.calibrate.against.file_times import MS_PER_S, FileTimes
from experiments.calibrate.against.measured_run import MeasuredRows, MeasuredRun
from traces.options import shown
from traces.readers.chosen_run import chosen_run
from traces.readers.guidellm import FAILED_GROUPS, STARTS
from traces.readers.json_elements import JsonElements
from traces.readers.reading import Reading


def read_guidellm(reading: Reading, run: int | None) -> MeasuredRun:
    """Read a report.

    Args:
        reading: names the file.
        run: which of several benchmarks, from 1; None if there is one.

    Raises:
        TraceFormatError: the file is no such report, or a request in it is damaged.
    """
    source = JsonElements(reading, are_rows=False)
    _, report = chosen_run(reading, list(source.objects()), None)
    found = report.get("benchmarks")
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise reading.refuse(0, "has no list of benchmarks, must be a report of GuideLLM")
    groups = chosen_run(reading, found, run).get("requests")
    if not isinstance(groups, dict) or "successful" not in groups:
        why = f"requests {shown(groups)}: must be an object with a list of successful ones"
        raise reading.refuse(0, why)
    rows, times = MeasuredRows(reading), FileTimes(reading, MS_PER_S)
    for group in ("successful", *FAILED_GROUPS):
        requests = groups.get(group) or []
        if not isinstance(requests, list):
            raise reading.refuse(0, f"requests.{group} {shown(requests)}: must be a list")
        for i, request in enumerate(requests):
            where = f"requests.{group}[{i}]: "
            if not isinstance(request, dict):
                raise reading.refuse(0, f"{where}{shown(request)}: must be an object")
            if group in FAILED_GROUPS or request.get("output_tokens") == 0:
                rows.fail()
            else:
                _add(rows, times, where, request)
    return rows.run("guidellm", source.sha256)


def _add(rows: MeasuredRows, times: FileTimes, where: str, request: dict[str, Any]) -> None:
    lengths = {name: request.get(name) for name in ("prompt_tokens", "output_tokens")}
    start = next((request[name] for name in STARTS if request.get(name) is not None), None)
    first, gap = "time_to_first_token_ms", "inter_token_latency_ms"
    ttft_s = times.time_s(0, where, first, request.get(first))
    output = lengths["output_tokens"]
    decode_s = 0.0
    if isinstance(output, int) and output > 1:
        decode_s = (output - 1) * times.time_s(0, where, gap, request.get(gap))
    rows.add(0, where, lengths, start, ttft_s, decode_s, None)
