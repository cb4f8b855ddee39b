"""Results of `vllm bench serve --save-result --save-detailed`: the requests that it sent.

One JSON object per run with a list each of `input_lens`, `output_lens`, `errors` (empty text: none)
and, in later versions, `start_times` (seconds of a clock of its own), and `max_concurrency` (null:
no bound). With `--append-result` a file holds several, one per line. Without start times, requests
keep the order of the lists. Requests that failed have an error or an output of length 0.

Source: vllm-project/vllm, vllm/benchmarks/serve.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from traces.options import require_bool, require_path, shown
from traces.readers.chosen_run import chosen_run, require_run
from traces.readers.json_elements import JsonElements
from traces.readers.reading import Reading
from traces.readers.recorded_arrivals import RecordedArrivals
from traces.readers.replayed_rows import ReplayedRows
from traces.schema import TraceTable

LISTS = ("input_lens", "output_lens", "errors", "start_times")


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmBenchTrace:
    """A run of vLLM's benchmark of a server.

    Attributes:
        path: the JSON file.
        run: which of several results in the file, from 1; null if there is one.
        skip_failed: leave out failed requests instead of refusing them.
        rate_per_s: arrivals at this mean rate take the place of the recorded times.
        arrivals: their process (`traces.synthetic.arrivals`); null is Poisson with a rate.
        closed_loop: whether a fixed number of users take the requests in order instead.
        concurrency: how many; null is the file's `max_concurrency`.
    """

    path: str | Path
    run: int | None = None
    skip_failed: bool = False
    rate_per_s: float | None = None
    arrivals: str | Mapping[str, Any] | None = None
    closed_loop: bool = False
    concurrency: int | None = None

    def __post_init__(self) -> None:
        require_path("trace.path", self.path)
        require_run(self.run)
        require_bool("trace.skip_failed", self.skip_failed)
        self._arrivals()

    def load(self, seed: int) -> TraceTable:
        """Read the file; `seed` is for arrivals that are not the recorded ones."""
        return self.read(Reading(self.path), seed)

    def read(self, reading: Reading, seed: int = 0) -> TraceTable:
        """Read the file in one pass.

        Raises:
            TraceFormatError: the file is no such result, or in a strict pass a bad request.
        """
        source = JsonElements(reading, are_rows=False)
        line, result = chosen_run(reading, list(source.objects()), self.run)
        columns = _columns(reading, line, result)
        rows = ReplayedRows(reading, self.skip_failed)
        for i, (prompt, output, error, start) in enumerate(zip(*columns, strict=True)):
            where = f"request {i}: "
            if error or output == 0:
                rows.fail(line, where)
                continue
            row = {"input_lens": prompt, "output_lens": output}
            rows.add(line, row, start=start, where=where)
        users = result.get("max_concurrency")
        users = users if type(users) is int and users > 0 else None
        options = {"run": self.run, "skip_failed": self.skip_failed}
        return rows.table("vllm_bench", source.sha256, self._arrivals(), seed, options, users)

    def _arrivals(self) -> RecordedArrivals:
        return RecordedArrivals(self.rate_per_s, self.arrivals, self.closed_loop, self.concurrency)


def _columns(reading: Reading, line: int, result: dict[str, Any]) -> list[list[Any]]:
    """The lists of `LISTS`; of nothing where a version has none."""
    columns: list[list[Any]] = []
    for name in LISTS:
        values = result.get(name)
        if values is None and name in ("errors", "start_times"):
            values = [None] * len(columns[0])
        if values is None:
            why = f"has no {name}; the benchmark writes them with --save-detailed"
            raise reading.refuse(line, why)
        if not isinstance(values, list):
            raise reading.refuse(line, f"{name} {shown(values)}: must be a list")
        columns.append(values)
        if len(values) != len(columns[0]):
            why = f"{len(values)} {name}: must be {len(columns[0])}, as many as {LISTS[0]}"
            raise reading.refuse(line, why)
    if not columns[0]:
        raise reading.refuse(line, "has no requests, must have at least one")
    return columns
