"""Replays of what benchmarks sent: vLLM's, GuideLLM's and AIPerf's published layouts and faults."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim.errors import ConfigError, TraceFormatError
from traces.build import build_workload
from traces.readers.aiperf import AiperfTrace
from traces.readers.guidellm import GuideLlmTrace
from traces.readers.reading import FaultFinding, Reading
from traces.readers.vllm_bench import VllmBenchTrace
from traces.schema import TraceTable
from traces.synthetic.arrivals import poisson_arrivals

SENT = [(10.5, 20, 1), (11.0, 30, 2), (13.0, 40, 3)]
"""Start, prompt and output of three requests."""


def vllm(sent: list[tuple[float, int, int]] = SENT, **changed: Any) -> dict[str, Any]:
    result = {
        "date": "20260101-000000",
        "num_prompts": len(sent),
        "request_rate": "inf",
        "max_concurrency": 2,
        "duration": 4.5,
        "input_lens": [prompt for _, prompt, _ in sent],
        "output_lens": [output for *_, output in sent],
        "start_times": [start for start, *_ in sent],
        "ttfts": [0.1] * len(sent),
        "itls": [[0.01]] * len(sent),
        "errors": [""] * len(sent),
        "p99_itl_ms": 10.0,
    }
    return {name: value for name, value in {**result, **changed}.items() if value is not ...}


def guidellm_request(start: float, prompt: int, output: int, **changed: Any) -> dict[str, Any]:
    return {
        "type_": "generative_request_stats",
        "request_id": "x",
        "info": {"status": "completed", "timings": {"request_start": start}},
        "request_start_time": start,
        "prompt_tokens": prompt,
        "output_tokens": output,
        **changed,
    }


def guidellm(
    sent: list[tuple[float, int, int]] = SENT, failed: int = 0, **changed: Any
) -> dict[str, Any]:
    requests = {
        "successful": [guidellm_request(*request) for request in sent],
        "errored": [guidellm_request(12.0, 5, 0)] * failed,
        "incomplete": [guidellm_request(12.5, 5, 1)] * failed,
        "total": None,
    }
    strategy = {"type_": "concurrent", "streams": 2}
    return {"config": {"strategy": strategy}, "requests": requests, **changed}


def report(*benchmarks: Any) -> str:
    return json.dumps({"args": {}, "benchmarks": list(benchmarks)}, indent=1)


def aiperf_record(start: float, prompt: int, output: int, **changed: Any) -> dict[str, Any]:
    metadata = {
        "session_num": 0,
        "x_correlation_id": "a",
        "turn_index": 0,
        "request_start_ns": 1_759_813_207_000_000_000 + round(start * 1e9),
        "benchmark_phase": "profiling",
        "was_cancelled": False,
        **changed.pop("metadata", {}),
    }
    metrics = {
        "input_sequence_length": {"value": prompt, "unit": "tokens"},
        "output_sequence_length": {"value": output, "unit": "tokens"},
        "time_to_first_token": {"value": 255.9, "unit": "ms"},
    }
    return {"metadata": metadata, "metrics": metrics, "error": None, **changed}


def lines(*records: Any) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


WRITERS: dict[str, tuple[Any, Callable[[list[tuple[float, int, int]]], str]]] = {
    "vllm": (VllmBenchTrace, lambda sent: json.dumps(vllm(sent))),
    "guidellm": (GuideLlmTrace, lambda sent: report(guidellm(sent))),
    "aiperf": (AiperfTrace, lambda sent: lines(*(aiperf_record(*request) for request in sent))),
}


def write(folder: Path, text: str) -> Path:
    path = folder / "result.json"
    path.write_text(text)
    return path


def read(trace: Any, path: Path, seed: int = 0, **options: Any) -> TraceTable:
    table: TraceTable = trace(path=path, **options).load(seed)
    return table


@pytest.mark.parametrize("name", WRITERS)
def test_requests_come_back_in_the_order_of_their_starts(tmp_path: Path, name: str) -> None:
    trace, text_of = WRITERS[name]
    path = write(tmp_path, text_of([SENT[2], SENT[0], SENT[1]]))
    table = read(trace, path)
    assert table.arrival_s.tolist() == [0.0, 0.5, 2.5]
    assert table.prompt_tokens.tolist() == [20, 30, 40]
    assert table.output_tokens.tolist() == [1, 2, 3]
    assert table.concurrency is None
    assert table.session_id is None
    assert table.provenance["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert table.provenance["num_rows"] == 3
    assert "seed" not in table.provenance
    assert build_workload(trace(path=str(path)), seed=0).num_requests == 3


@pytest.mark.parametrize("name", WRITERS)
def test_a_rate_takes_the_place_of_recorded_times(tmp_path: Path, name: str) -> None:
    trace, text_of = WRITERS[name]
    path = write(tmp_path, text_of([SENT[1], SENT[0], SENT[2]]))
    table = read(trace, path, 7, rate_per_s=4.0)
    assert table.arrival_s.tolist() == poisson_arrivals(7, 3, 4.0).tolist()
    assert table.prompt_tokens.tolist() == [20, 30, 40]
    assert (table.provenance["seed"], table.provenance["options"]["rate_per_s"]) == (7, 4.0)
    table = read(trace, path, rate_per_s=4.0, arrivals="constant")
    assert np.diff(table.arrival_s).tolist() == [0.25, 0.25]
    table = read(trace, path, arrivals={"kind": "closed_loop", "concurrency": 5})
    assert table.concurrency == 5
    assert table.delay_s is not None


@pytest.mark.parametrize("name", WRITERS)
def test_a_closed_loop_keeps_recorded_times_as_nominal(tmp_path: Path, name: str) -> None:
    trace, text_of = WRITERS[name]
    path = write(tmp_path, text_of(SENT))
    table = read(trace, path, closed_loop=True, concurrency=3)
    assert table.concurrency == 3
    assert table.arrival_s.tolist() == [0.0, 0.5, 2.5]
    assert build_workload(trace(path=path, closed_loop=True, concurrency=3), seed=0).is_closed_loop
    if name == "aiperf":
        with pytest.raises(TraceFormatError, match=r"does not say how many .*give trace.concurren"):
            read(trace, path, closed_loop=True)
    else:
        assert read(trace, path, closed_loop=True).concurrency == 2


def test_vllm_results_without_start_times_need_a_rate_or_a_closed_loop(tmp_path: Path) -> None:
    path = write(tmp_path, json.dumps(vllm(start_times=..., errors=...)))
    with pytest.raises(TraceFormatError, match=r"has no start times, give trace.rate_per_s or"):
        read(VllmBenchTrace, path)
    table = read(VllmBenchTrace, path, rate_per_s=1.0)
    assert table.prompt_tokens.tolist() == [20, 30, 40]
    table = read(VllmBenchTrace, path, closed_loop=True)
    assert (table.concurrency, table.arrival_s.tolist()) == (2, [0.0, 0.0, 0.0])
    unbound = write(tmp_path, json.dumps(vllm(max_concurrency=None)))
    with pytest.raises(TraceFormatError, match="does not say how many requests were in flight"):
        read(VllmBenchTrace, unbound, closed_loop=True)


def test_one_of_several_results_is_chosen(tmp_path: Path) -> None:
    path = write(tmp_path, json.dumps(vllm()) + "\n" + json.dumps(vllm(SENT[:1])))
    assert read(VllmBenchTrace, path, run=2).num_requests == 1
    assert read(VllmBenchTrace, path, run=1).num_requests == 3
    with pytest.raises(
        TraceFormatError, match=r"holds 2 results: choose one with trace.run=1 to 2"
    ):
        read(VllmBenchTrace, path)
    with pytest.raises(TraceFormatError, match=r"holds 2 results, not number 3 \(trace.run\)"):
        read(VllmBenchTrace, path, run=3)
    path = write(tmp_path, report(guidellm(), guidellm(SENT[:2])))
    assert read(GuideLlmTrace, path, run=2).num_requests == 2
    with pytest.raises(TraceFormatError, match="holds 2 results: choose one"):
        read(GuideLlmTrace, path)
    with pytest.raises(TraceFormatError, match="holds no result, not number 1"):
        read(GuideLlmTrace, write(tmp_path, report()))


FAILING: dict[str, tuple[Any, str, int]] = {
    "vllm": (
        VllmBenchTrace,
        json.dumps(vllm([*SENT, (14, 9, 0), (15, 9, 5)], errors=["", "", "", "", "timeout"])),
        2,
    ),
    "guidellm": (GuideLlmTrace, report(guidellm([*SENT, (14, 9, 0)], failed=1)), 3),
    "aiperf": (
        AiperfTrace,
        lines(
            *(aiperf_record(*request) for request in SENT),
            aiperf_record(14, 9, 0),
            aiperf_record(14, 9, 3, error={"code": 499, "type": "X"}),
            aiperf_record(14, 9, 3, metadata={"was_cancelled": True}),
            aiperf_record(14, 9, 3, metrics={"error_isl": {"value": 9, "unit": "tokens"}}),
            aiperf_record(14, 9, 3, metrics=None, error={"code": 500}),
        ),
        5,
    ),
}


@pytest.mark.parametrize("name", FAILING)
def test_failed_requests_are_counted_and_refused_or_left_out(tmp_path: Path, name: str) -> None:
    trace, text, num_failed = FAILING[name]
    path = write(tmp_path, text)
    with pytest.raises(TraceFormatError) as caught:
        read(trace, path)
    assert caught.value.line == {"vllm": 1, "guidellm": 0, "aiperf": 4}[name]
    where = {"vllm": "request 3: ", "guidellm": "requests.successful[3]: "}.get(name, "")
    assert caught.value.why == (
        f"{where}no output, or an error, or cancelled: a failed request, {num_failed} such rows in "
        "the file (trace.skip_failed=true leaves them out)"
    )
    reading = Reading(path)
    table = trace(path=path, skip_failed=True).read(reading)
    assert table.prompt_tokens.tolist() == [20, 30, 40]
    assert table.provenance["skipped"] == {"failed": num_failed} == dict(reading.skipped)
    assert table.provenance["num_rows"] == 3
    finding = FaultFinding(path)
    assert trace(path=path).read(finding).num_requests == 3
    assert dict(finding.counts) == {"failed": num_failed}


@pytest.mark.parametrize("name", ["vllm", "guidellm"])
def test_a_result_of_failures_only_is_refused(tmp_path: Path, name: str) -> None:
    trace, text_of = WRITERS[name]
    path = write(tmp_path, text_of([(1.0, 5, 0)]))
    with pytest.raises(TraceFormatError, match="all 1 requests failed, none is left"):
        read(trace, path, skip_failed=True)


def test_conversations_have_sessions_and_turns(tmp_path: Path) -> None:
    def turn(start: float, session: str, number: int) -> Any:
        metadata = {"x_correlation_id": session, "turn_index": number}
        return aiperf_record(start, 5, 5, metadata=metadata)

    path = write(tmp_path, lines(turn(1, "a", 0), turn(3, "a", 1), turn(2, "b", 0)))
    table = read(AiperfTrace, path)
    assert table.session_id is not None and table.turn is not None
    assert table.session_id.tolist() == [0, 1, 0]
    assert table.turn.tolist() == [0, 0, 1]
    second = guidellm_request(2.0, 5, 5, info={"conversation_id": "c", "turn_index": 1})
    requests = {"successful": [guidellm_request(1.0, 5, 5), second]}
    table = read(GuideLlmTrace, write(tmp_path, report(guidellm(requests=requests))))
    assert table.session_id is not None and table.session_id.tolist() == [-1, 0]


def test_early_guidellm_reports_have_other_names(tmp_path: Path) -> None:
    request = {"start_time": 3.0, "prompt_tokens": 4, "output_tokens": 5}
    later = {"start_time": 4.5, "prompt_tokens": 6.0, "output_tokens": 7}
    benchmark = {"requests": {"successful": [later, request]}, "args": {"strategy": {"streams": 9}}}
    path = write(tmp_path, report(benchmark))
    table = read(GuideLlmTrace, path)
    assert table.arrival_s.tolist() == [0.0, 1.5]
    assert table.prompt_tokens.tolist() == [4, 6]
    assert read(GuideLlmTrace, path, closed_loop=True).concurrency == 9


def test_nanoseconds_since_1970_stay_exact(tmp_path: Path) -> None:
    first = 1_759_813_207_532_900_363
    records = [
        aiperf_record(0, 5, 5, metadata={"request_start_ns": first + delay}) for delay in (0, 1, 3)
    ]
    assert read(AiperfTrace, write(tmp_path, lines(*records))).arrival_s.tolist() == [0, 1e-9, 3e-9]


BAD_FILES: dict[str, tuple[Any, str, int, str]] = {
    "not detailed": (
        VllmBenchTrace,
        json.dumps(vllm(input_lens=...)),
        1,
        "has no input_lens; the benchmark writes them with --save-detailed",
    ),
    "no list": (
        VllmBenchTrace,
        json.dumps(vllm(output_lens=3)),
        1,
        "output_lens 3: must be a list",
    ),
    "lengths": (
        VllmBenchTrace,
        json.dumps(vllm(errors=[""])),
        1,
        "1 errors: must be 3, as many as",
    ),
    "no requests": (VllmBenchTrace, json.dumps(vllm([])), 1, "has no requests"),
    "prompt": (
        VllmBenchTrace,
        json.dumps(vllm(input_lens=[1, 0, 1])),
        1,
        "request 1: input_lens 0: must be an integer from 1 to 10,000,000",
    ),
    "output": (
        VllmBenchTrace,
        json.dumps(vllm(output_lens=[1, 2, "3"])),
        1,
        "request 2: output_lens '3': must be an integer from 1 to 10,000,000",
    ),
    "start": (
        VllmBenchTrace,
        json.dumps(vllm(start_times=[1, "x", 2])),
        1,
        "request 1: start time 'x': must be a number",
    ),
    "nan": (
        VllmBenchTrace,
        json.dumps(vllm(start_times=[1, float("nan"), 2])),
        1,
        "request 1: start",
    ),
    "years": (
        VllmBenchTrace,
        json.dumps(vllm(start_times=[0, 1, 2e9])),
        0,
        "start times span 2e+09",
    ),
    "cut": (VllmBenchTrace, json.dumps(vllm())[:-9], 1, "not valid JSON: "),
    "cut after a comma": (
        VllmBenchTrace,
        json.dumps(vllm()).rpartition(", ")[0] + ",",
        1,
        "not valid JSON: ",
    ),
    "cut after a line": (
        VllmBenchTrace,
        json.dumps(vllm(), indent=1).rpartition("\n")[0] + "\n\n\n",
        json.dumps(vllm(), indent=1).count("\n"),
        "not valid JSON: ",
    ),
    "text": (VllmBenchTrace, "done\n", 1, "'done\\n': must be a JSON object"),
    "no report": (
        GuideLlmTrace,
        json.dumps(vllm()),
        0,
        "has no list of benchmarks, must be a report",
    ),
    "no groups": (
        GuideLlmTrace,
        report({"requests": []}),
        0,
        "requests []: must be an object with",
    ),
    "group": (
        GuideLlmTrace,
        report({"requests": {"successful": 3}}),
        0,
        "requests.successful 3: must",
    ),
    "entry": (
        GuideLlmTrace,
        report({"requests": {"successful": [3]}}),
        0,
        "requests.successful[0] 3",
    ),
    "empty": (
        GuideLlmTrace,
        report({"requests": {"successful": []}}),
        0,
        "has no requests, must have",
    ),
    "tokens": (
        GuideLlmTrace,
        report(guidellm(requests={"successful": [guidellm_request(1, 5, 5, prompt_tokens=None)]})),
        0,
        "requests.successful[0]: prompt_tokens None: must be an integer",
    ),
    "csv": (
        GuideLlmTrace,
        "Run Info,Run Info\n",
        1,
        "'Run Info,Run Info\\n': must be a JSON object",
    ),
    "no metrics": (AiperfTrace, lines({"metadata": {}}), 1, "key 'metrics' is missing"),
    "metadata": (
        AiperfTrace,
        lines({"metadata": 3, "metrics": {}}),
        1,
        "metadata 3: it and metrics",
    ),
    "no prompt": (
        AiperfTrace,
        lines(aiperf_record(1, 5, 5, metrics={"output_sequence_length": 5})),
        1,
        "input_sequence_length None: must be an integer",
    ),
    "no start": (
        AiperfTrace,
        lines(aiperf_record(1, 5, 5), aiperf_record(1, 5, 5, metadata={"request_start_ns": None})),
        2,
        "request_start_ns None: must be an integer",
    ),
    "line": (AiperfTrace, lines(aiperf_record(1, 5, 5)) + "{\n", 2, "not valid JSON: "),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_refused_in_one_line(tmp_path: Path, case: str) -> None:
    trace, text, line, why = BAD_FILES[case]
    path = write(tmp_path, text)
    with pytest.raises(TraceFormatError) as caught:
        read(trace, path)
    assert caught.value.line == line
    assert caught.value.why.startswith(why)
    assert "\n" not in str(caught.value)
    finding = FaultFinding(path)
    try:
        trace(path=path).read(finding)
    except TraceFormatError as error:
        assert error.why == caught.value.why
    else:
        assert finding.faults[0].why == caught.value.why


BAD_OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "path": ({"path": ""}, "trace.path='': must be the path"),
    "skip": ({"skip_failed": "no"}, "trace.skip_failed='no': must be true or false"),
    "rate": ({"rate_per_s": 0}, "trace.rate_per_s=0: must be"),
    "arrivals": (
        {"arrivals": "daily", "rate_per_s": 1},
        "trace.arrivals.kind='daily': must be one",
    ),
    "no rate": ({"arrivals": "poisson"}, "trace.rate_per_s=None: must be"),
    "loop": ({"closed_loop": 1}, "trace.closed_loop=1: must be true or false"),
    "users": ({"closed_loop": True, "concurrency": 0}, "trace.concurrency=0: must be an integer"),
    "no loop": ({"concurrency": 4}, "trace.concurrency=4 has no effect without trace.closed_loop"),
    "both": ({"closed_loop": True, "rate_per_s": 2}, "trace.rate_per_s=2: must be null with"),
    "both kinds": (
        {"closed_loop": True, "arrivals": "constant"},
        "trace.arrivals='constant': must",
    ),
}


@pytest.mark.parametrize("trace", [VllmBenchTrace, GuideLlmTrace, AiperfTrace])
@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_bad_options_are_refused(trace: Any, case: str) -> None:
    options, why = BAD_OPTIONS[case]
    with pytest.raises(ConfigError, match=why):
        trace(**{"path": "x.json", **options})


@pytest.mark.parametrize("trace", [VllmBenchTrace, GuideLlmTrace])
def test_a_run_is_a_number_from_1(trace: Any) -> None:
    with pytest.raises(ConfigError, match=r"trace.run=0: must be an integer >= 1"):
        trace(path="x.json", run=0)


def test_every_fault_of_a_request_is_found(tmp_path: Path) -> None:
    record = {
        "metadata": {"request_start_ns": "x"},
        "metrics": {"input_sequence_length": 0, "output_sequence_length": "y"},
    }
    finding = FaultFinding(write(tmp_path, lines(record)))
    AiperfTrace(path=finding.path).read(finding)
    assert [fault.kind for fault in finding.faults] == [
        *("request_start_ns", "input_sequence_length", "output_sequence_length")
    ]
    result = vllm(SENT, input_lens=[1, 0, 1], output_lens=[1, 1.5, 1], start_times=[0, "x", 1])
    finding = FaultFinding(write(tmp_path, json.dumps(result)))
    VllmBenchTrace(path=finding.path, rate_per_s=1.0).read(finding)
    assert [(fault.kind, fault.why[:11]) for fault in finding.faults] == [
        (kind, "request 1: ") for kind in ("input_lens", "output_lens", "start time")
    ]
