"""Measured runs of `vllm bench serve --save-result --save-detailed`.

Besides what `traces.readers.vllm_bench` reads, a result has `ttfts` (seconds, one per request) and
`itls` (seconds, a list of gaps per request). The first token comes `ttfts` after the start, the
last one the sum of the gaps later.

Source: vllm-project/vllm, vllm/benchmarks/serve.py.
"""

from typing import Any

from experiments.calibrate.against.file_times import FileTimes
from experiments.calibrate.against.measured_run import MeasuredRows, MeasuredRun
from traces.options import shown
from traces.readers.chosen_run import chosen_run
from traces.readers.json_elements import JsonElements
from traces.readers.reading import Reading

LISTS = ("input_lens", "output_lens", "start_times", "ttfts", "itls")


def read_vllm(reading: Reading, run: int | None) -> MeasuredRun:
    """Read a result.

    Args:
        reading: names the file.
        run: which of several results, from 1; None if there is one.

    Raises:
        TraceFormatError: the file is no such result, or a request in it is damaged.
    """
    source = JsonElements(reading, are_rows=False)
    line, result = chosen_run(reading, list(source.objects()), run)
    columns = [_list(reading, line, result, name) for name in LISTS]
    errors = result.get("errors")
    columns.append([None] * len(columns[0]) if errors is None else errors)
    for name, column in zip((*LISTS, "errors"), columns, strict=True):
        if not isinstance(column, list) or len(column) != len(columns[0]):
            why = f"{name} must be a list of {len(columns[0])}, as many as {LISTS[0]}"
            raise reading.refuse(line, why)
    rows, times = MeasuredRows(reading), FileTimes(reading, 1.0)
    for i, (prompt, output, start, ttft, itls, error) in enumerate(zip(*columns, strict=True)):
        where = f"request {i}: "
        if error or output == 0:
            rows.fail()
            continue
        gaps_s = times.gaps_s(line, where, "itls", itls)
        ttft_s = times.time_s(line, where, "ttfts", ttft)
        lengths = {"input_lens": prompt, "output_lens": output}
        rows.add(line, where, lengths, start, ttft_s, float(gaps_s.sum()), gaps_s)
    return rows.run("vllm_bench", source.sha256)


def _list(reading: Reading, line: int, result: dict[str, Any], name: str) -> list[Any]:
    values = result.get(name)
    if values is None:
        why = f"has no {name}; the benchmark writes them with --save-detailed"
        if name == "start_times":
            why = "has no start_times, which a replay needs; newer versions of the benchmark do"
        raise reading.refuse(line, why)
    if not isinstance(values, list):
        raise reading.refuse(line, f"{name} {shown(values)}: must be a list")
    return values
