"""Reports of GuideLLM (`benchmarks.json`): the requests that it sent.

A report has `benchmarks`, each with `requests` grouped as `successful`, `errored` and `incomplete`.
A request has `prompt_tokens`, `output_tokens` and `request_start_time` (seconds since 1970; in
early versions `start_time`), and in later versions a conversation and a turn under `info`.
Errored and incomplete ones count as failed. GuideLLM may keep only a sample of the requests. Its
CSV files hold no requests.

Source: vllm-project/guidellm, src/guidellm/schemas/request_stats.py and benchmark/schemas.
"""

from collections.abc import Iterator, Mapping
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

FAILED_GROUPS = ("errored", "incomplete")

STARTS = ("request_start_time", "start_time")

STRATEGIES = (("config", "strategy"), ("args", "strategy"), ("scheduler", "strategy"))
"""Where versions keep how requests were sent; a number of `streams` is a closed loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuideLlmTrace:
    """A benchmark of a GuideLLM report.

    Attributes:
        path: the JSON file.
        run: which benchmark of the report, from 1; null if there is one.
        skip_failed: leave out errored and incomplete requests instead of refusing them.
        rate_per_s: arrivals at this mean rate take the place of the recorded times.
        arrivals: their process (`traces.synthetic.arrivals`); null is Poisson with a rate.
        closed_loop: whether a fixed number of users take the requests in order instead.
        concurrency: how many; null is the number of streams of the benchmark.
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
            TraceFormatError: the file is no such report, or in a strict pass a bad request.
        """
        source = JsonElements(reading, are_rows=False)
        _, report = chosen_run(reading, list(source.objects()), None)
        found = report.get("benchmarks")
        if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
            raise reading.refuse(0, "has no list of benchmarks, must be a report of GuideLLM")
        benchmark = chosen_run(reading, found, self.run)
        rows = ReplayedRows(reading, self.skip_failed)
        num_requests = 0
        for group, i, request in _requests(reading, benchmark):
            num_requests += 1
            if isinstance(request, dict):
                _add(rows, group, i, request)
            else:
                why = f"requests.{group}[{i}] {shown(request)}: must be an object"
                reading.fault(0, "request", why)
        if not num_requests:
            raise reading.refuse(0, "has no requests, must have at least one")
        options = {"run": self.run, "skip_failed": self.skip_failed}
        arrivals, users = self._arrivals(), _streams(benchmark)
        return rows.table("guidellm", source.sha256, arrivals, seed, options, users)

    def _arrivals(self) -> RecordedArrivals:
        return RecordedArrivals(self.rate_per_s, self.arrivals, self.closed_loop, self.concurrency)


def _requests(reading: Reading, benchmark: dict[str, Any]) -> Iterator[tuple[str, int, Any]]:
    """Group, number in the group, and each request."""
    groups = benchmark.get("requests")
    if not isinstance(groups, dict) or "successful" not in groups:
        why = f"requests {shown(groups)}: must be an object with a list of successful ones"
        raise reading.refuse(0, why)
    for group in ("successful", *FAILED_GROUPS):
        requests = groups.get(group) or []
        if not isinstance(requests, list):
            raise reading.refuse(0, f"requests.{group} {shown(requests)}: must be a list")
        for i, request in enumerate(requests):
            yield group, i, request


def _add(rows: ReplayedRows, group: str, i: int, request: dict[str, Any]) -> None:
    where = f"requests.{group}[{i}]: "
    if group in FAILED_GROUPS or request.get("output_tokens") == 0:
        rows.fail(0, where)
        return
    info = request.get("info")
    info = info if isinstance(info, dict) else {}
    rows.add(
        0,
        {name: request.get(name) for name in ("prompt_tokens", "output_tokens")},
        start=next((request[name] for name in STARTS if request.get(name) is not None), None),
        session=info.get("conversation_id"),
        turn=info.get("turn_index"),
        where=where,
    )


def _streams(benchmark: dict[str, Any]) -> int | None:
    """How many requests were kept in flight; None if that was not the strategy."""
    for outer, inner in STRATEGIES:
        section = benchmark.get(outer)
        strategy = section.get(inner) if isinstance(section, dict) else None
        streams = strategy.get("streams") if isinstance(strategy, dict) else None
        if type(streams) is int and streams > 0:
            return streams
    return None
