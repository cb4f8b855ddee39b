"""Measured runs from files of every format: the same columns, failures counted, mistakes told."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.calibrate.against.measured_run import MeasuredRun
from experiments.calibrate.against.read_run import FORMATS, read_run
from sim.errors import ConfigError, TraceFormatError
from tests.unit.experiments.measured_files import (
    aiperf_lines,
    csv_text,
    guidellm_report,
    vllm_result,
)
from traces.build import build_workload
from traces.readers.aiperf import AiperfTrace
from traces.readers.csv_table import CsvTrace
from traces.readers.guidellm import GuideLlmTrace
from traces.readers.vllm_bench import VllmBenchTrace

ROWS: list[dict[str, Any]] = [
    {"start": 13.0, "prompt": 40, "output": 3, "ttft": 0.5, "itls": [0.02, 0.04]},
    {"start": 10.5, "prompt": 20, "output": 1, "ttft": 0.25, "itls": []},
    {"start": 11.0, "prompt": 30, "output": 2, "ttft": 0.125, "itls": [0.01]},
]
"""Three requests, not in the order of their starts."""

TEXTS: dict[str, Callable[[list[dict[str, Any]]], str]] = {
    "vllm_bench": lambda rows: json.dumps(vllm_result(rows)),
    "guidellm": lambda rows: json.dumps(guidellm_report(rows)),
    "aiperf": aiperf_lines,
    "csv": csv_text,
}

TRACES: dict[str, Any] = {
    "vllm_bench": VllmBenchTrace,
    "guidellm": GuideLlmTrace,
    "aiperf": AiperfTrace,
}


def write(folder: Path, text: str) -> str:
    path = folder / "run"
    path.write_text(text)
    return str(path)


def read(folder: Path, text: str, name: str | None = None, run: int | None = None) -> MeasuredRun:
    return read_run(write(folder, text), name, run)


def test_every_format_is_tried() -> None:
    assert set(TEXTS) == set(FORMATS)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("is_named", [False, True])
def test_all_formats_give_the_same_columns(tmp_path: Path, name: str, is_named: bool) -> None:
    run = read(tmp_path, TEXTS[name](ROWS), name if is_named else None)
    assert run.format == name
    assert run.arrival_s.tolist() == pytest.approx([0.0, 0.5, 2.5])
    assert run.prompt_tokens.tolist() == [20, 30, 40]
    assert run.output_tokens.tolist() == [1, 2, 3]
    assert run.ttft_s == pytest.approx([0.25, 0.125, 0.5])
    assert run.e2e_s == pytest.approx([0.25, 0.135, 0.56])
    assert np.isnan(run.tpot_s[0])
    assert run.tpot_s[1:] == pytest.approx([0.01, 0.03])
    assert run.num_failed == 0
    if name == "guidellm":
        assert run.gaps_s is None
        assert not run.has_a_gap_per_token
    else:
        assert run.gaps_s == pytest.approx([0.01, 0.02, 0.04])
        assert run.gaps_of(np.array([True, False, True])) == pytest.approx([0.02, 0.04])
        assert run.has_a_gap_per_token


@pytest.mark.parametrize("rest", ["e2e_s", "tpot_s"])
def test_a_table_may_tell_the_end_instead_of_the_gaps(tmp_path: Path, rest: str) -> None:
    run = read(tmp_path, csv_text(ROWS, rest))
    assert run.e2e_s == pytest.approx([0.25, 0.135, 0.56])
    assert run.gaps_s is None


@pytest.mark.parametrize("name", TRACES)
def test_the_replay_is_what_the_same_file_gives_as_a_trace(tmp_path: Path, name: str) -> None:
    text = TEXTS[name](ROWS)
    run = read(tmp_path, text)
    trace = build_workload(TRACES[name](path=tmp_path / "run"), seed=0)
    mine = run.workload()
    for column in ("arrival_s", "prompt_tokens", "output_tokens"):
        assert getattr(mine, column).tolist() == getattr(trace, column).tolist()
    assert mine.provenance["sha256"] == trace.provenance["sha256"]


def test_a_table_of_a_run_is_a_trace_too(tmp_path: Path) -> None:
    run = read(tmp_path, csv_text(sorted(ROWS, key=lambda row: float(row["start"]))))
    trace = build_workload(CsvTrace(path=tmp_path / "run"), seed=0)
    assert run.workload().arrival_s.tolist() == trace.arrival_s.tolist()
    assert run.workload().output_tokens.tolist() == trace.output_tokens.tolist()


def test_failed_requests_are_counted_in_every_format(tmp_path: Path) -> None:
    failed = vllm_result(ROWS, errors=["", "timeout", ""], output_lens=[0, 1, 2])
    assert read(tmp_path, json.dumps(failed)).num_failed == 2
    report = guidellm_report(ROWS)
    groups = report["benchmarks"][0]["requests"]
    groups["errored"], groups["incomplete"] = groups["successful"][:1], groups["successful"][1:2]
    assert read(tmp_path, json.dumps(report)).num_failed == 2
    lines = aiperf_lines(ROWS).splitlines()
    broken = {**json.loads(lines[0]), "error": {"code": 500}, "metrics": None}
    assert read(tmp_path, "\n".join([json.dumps(broken), *lines[1:]])).num_failed == 1
    text = csv_text(ROWS) + "20.0,5,0,0.1,\n21.0,5,3,,\n"
    run = read(tmp_path, text)
    assert (run.num_requests, run.num_failed) == (3, 2)


def test_several_tokens_at_a_time_are_no_gaps_between_tokens(tmp_path: Path) -> None:
    row = {"start": 0.0, "prompt": 8, "output": 101, "ttft": 0.1, "itls": [0.02] * 50}
    run = read(tmp_path, json.dumps(vllm_result([row])))
    assert not run.has_a_gap_per_token
    assert run.tpot_s == pytest.approx([0.01])


def test_one_of_several_results_is_chosen(tmp_path: Path) -> None:
    text = json.dumps(vllm_result(ROWS)) + "\n" + json.dumps(vllm_result(ROWS[:1]))
    assert read(tmp_path, text, run=2).num_requests == 1
    with pytest.raises(TraceFormatError, match="holds 2 results: choose one"):
        read(tmp_path, text)
    with pytest.raises(ConfigError, match="--run 2 has no effect"):
        read(tmp_path, csv_text(ROWS), run=2)


def test_files_may_be_packed(tmp_path: Path) -> None:
    path = tmp_path / "run.gz"
    path.write_bytes(gzip.compress(json.dumps(vllm_result(ROWS)).encode()))
    assert read_run(str(path), None, None).num_requests == 3


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"ttfts": ...}, "has no ttfts; the benchmark writes them with --save-detailed"),
        ({"itls": ...}, "has no itls; the benchmark"),
        ({"start_times": ...}, "has no start_times, which a replay needs"),
        ({"ttfts": [0.1]}, "ttfts must be a list of 3, as many as input_lens"),
        ({"ttfts": 3}, "ttfts 3: must be a list"),
        ({"errors": [""]}, "errors must be a list of 3"),
        ({"ttfts": [0.5, 0.0, 0.1]}, "request 1: time to first token 0 s: must be above 0"),
        ({"ttfts": [0.5, "x", 0.1]}, "request 1: ttfts 'x': must be a number"),
        ({"ttfts": [0.5, float("nan"), 0.1]}, "request 1: ttfts nan: must be a number"),
        ({"itls": [[0.1], [], [-0.1]]}, "request 2: itls has -0.1: must be numbers from 0"),
        ({"itls": [0.1, [], []]}, "request 0: itls 0.1: must be a list"),
        ({"start_times": [1.0, None, 2.0]}, "request 1: start time None: must be a number"),
        ({"start_times": [1.0, 1e12, 2.0]}, "start times span"),
        ({"input_lens": [0, 1, 1]}, "request 0: input_lens 0: must be an integer from 1"),
        ({"output_lens": [0, 0, 0]}, "all 3 requests failed, none is left"),
    ],
)
def test_a_damaged_result_is_one_line(tmp_path: Path, changed: dict[str, Any], line: str) -> None:
    with pytest.raises(TraceFormatError) as caught:
        read(tmp_path, json.dumps(vllm_result(ROWS, **changed)), "vllm_bench")
    assert line in str(caught.value)


@pytest.mark.parametrize(
    ("text", "name", "line"),
    [
        ("arrival_s,prompt_tokens,output_tokens,ttft_s\n1,2,3,4\n", "csv", "no column itls_s"),
        ("arrival_s,prompt_tokens,output_tokens,e2e_s\n1,2,3,4\n", "csv", "no column 'ttft_s'"),
        (csv_text(ROWS) + "x,5,2,0.1,0.1\n", "csv", "run:5: start time 'x': must be a number"),
        (csv_text(ROWS) + "1,5,2,0.1,0.1 y\n", "csv", "run:5: itls_s has 'y': must be numbers"),
        (csv_text(ROWS, "e2e_s") + "1,5,2,0.5,0.1\n", "csv", "from first to last token -0.4 s"),
        (csv_text(ROWS, "e2e_s") + "1,5,x,0.5,0.9\n", "csv", "output_tokens 'x': must be"),
        (csv_text(ROWS) + "1,5\n", "csv", "run:5: 2 fields"),
        (aiperf_lines(ROWS, unit="s"), "aiperf", "unit of time_to_first_token 's': must be 'ms'"),
        ("{}", "guidellm", "has no list of benchmarks"),
        ('{"benchmarks": [{"requests": {"successful": []}}]}', "guidellm", "has no requests"),
        ('{"benchmarks": [{"requests": []}]}', "guidellm", "must be an object with a list of"),
    ],
)
def test_a_damaged_file_is_one_line(tmp_path: Path, text: str, name: str, line: str) -> None:
    with pytest.raises(TraceFormatError) as caught:
        read(tmp_path, text, name)
    assert line in str(caught.value)


def test_a_trace_without_latencies_is_refused(tmp_path: Path) -> None:
    text = '{"timestamp": 0, "input_length": 5, "output_length": 2, "hash_ids": [1]}\n'
    with pytest.raises(ConfigError, match="trace of format mooncake, which holds no measured"):
        read(tmp_path, text)
    with pytest.raises(ConfigError, match="no such file"):
        read_run(str(tmp_path / "none"), None, None)
