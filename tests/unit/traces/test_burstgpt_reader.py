"""BurstGPT files of every release, and failed calls, which are counted before they are refused."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from sim.errors import ConfigError, TraceFormatError
from traces.build import build_workload
from traces.readers.burstgpt import BurstGptTrace
from traces.readers.reading import FaultFinding, Reading
from traces.schema import TraceTable

FIRST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"

SECOND = (
    "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type"
)

CALLS = ("5,ChatGPT,472,18,490,Conversation log", "45,GPT-4,1087,230,1317,API log")


def write(folder: Path, *lines: str) -> Path:
    path = folder / "b.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def read(path: Path, **options: Any) -> TraceTable:
    return BurstGptTrace(path, **options).load(0)


def test_a_file_of_the_first_release(tmp_path: Path) -> None:
    path = write(tmp_path, FIRST, *CALLS)
    table = read(path)
    assert table.arrival_s.tolist() == [0.0, 40.0]
    assert table.prompt_tokens.tolist() == [472, 1087]
    assert table.output_tokens.tolist() == [18, 230]
    assert table.tenant is not None and table.slo_class is not None
    assert table.tenant.names == ("ChatGPT", "GPT-4")
    assert table.slo_class.names == ("Conversation log", "API log")
    assert table.session_id is None and table.runs is None
    assert table.provenance == {
        "format": "burstgpt",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "num_rows": 2,
        "options": {"skip_failed": False, "sort": False},
    }


def test_a_file_of_the_second_release_has_sessions(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        SECOND,
        "19440110.0,1722ac82,43,GPT-4,906,446,1352,Conversation log",
        "19440161.5,,2,ChatGPT,36,29,65,API log",
        "19440192.0,1722ac82,8,GPT-4,1779,123,1902,Conversation log",
    )
    table = read(path)
    assert table.arrival_s.tolist() == [0.0, 51.5, 82.0]
    assert table.session_id is not None
    assert table.session_id.tolist() == [0, -1, 0]
    assert build_workload(BurstGptTrace(path), seed=0).num_requests == 3


FAILED = ("7,ChatGPT,30,0,30,API log", "8,ChatGPT,0,20,20,API log", "9,GPT-4,0,0,0,API log")


def test_failed_calls_are_counted_and_the_first_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError) as caught:
        read(write(tmp_path, FIRST, CALLS[0], *FAILED, CALLS[1]))
    assert caught.value.line == 3
    assert caught.value.why == (
        "has no request or no response tokens: a failed request, 3 such rows in the file "
        "(trace.skip_failed=true leaves them out)"
    )
    with pytest.raises(TraceFormatError, match="1 such row in the file"):
        read(write(tmp_path, FIRST, CALLS[0], FAILED[0]))


def test_failed_calls_are_left_out_on_demand_and_counted(tmp_path: Path) -> None:
    path = write(tmp_path, FIRST, FAILED[0], CALLS[0], *FAILED[1:], CALLS[1])
    reading = Reading(path)
    table = BurstGptTrace(path, skip_failed=True, sort=False).read(reading)
    assert table.prompt_tokens.tolist() == [472, 1087]
    assert table.provenance["num_rows"] == 2
    assert table.provenance["skipped"] == {"failed": 3} == dict(reading.skipped)
    assert table.provenance["options"]["skip_failed"] is True
    assert "skipped" not in read(write(tmp_path, FIRST, *CALLS)).provenance


def test_a_file_of_failed_calls_only_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError, match=r"b.csv: all 3 requests failed, none is left"):
        read(write(tmp_path, FIRST, *FAILED), skip_failed=True)


def test_every_fault_is_found(tmp_path: Path) -> None:
    path = write(
        tmp_path, FIRST, FAILED[0], "x,ChatGPT,1,1,2,API log", CALLS[1], FAILED[1], CALLS[0]
    )
    finding = FaultFinding(path)
    table = BurstGptTrace(path).read(finding)
    assert [(fault.line, fault.kind) for fault in finding.faults] == [
        (3, "Timestamp"),
        (2, "failed"),
        (5, "failed"),
        (6, "order"),
    ]
    assert table.prompt_tokens.tolist() == [472, 1087]
    finding = FaultFinding(path)
    assert BurstGptTrace(path, skip_failed=True, sort=True).read(finding).num_requests == 2
    assert [fault.line for fault in finding.faults] == [3]


BAD_FILES: dict[str, tuple[tuple[str, ...], int, str]] = {
    "column": ((FIRST.replace("Log ", "log "), CALLS[0]), 1, "no column 'Log Type' (did you mean"),
    "tokens": ((FIRST, "5,GPT-4,1.5,18,20,API log"), 2, "Request tokens '1.5': must be an integer"),
    "negative": ((FIRST, "5,GPT-4,1,-1,0,API log"), 2, "Response tokens '-1': must be an integer"),
    "time": ((FIRST, "-,GPT-4,1,1,2,API log"), 2, "Timestamp '-': must be a number of s"),
    "fields": ((FIRST, CALLS[0], "5,GPT-4"), 3, "2 fields in '5,GPT-4': must be 6"),
    "disorder": ((FIRST, CALLS[1], CALLS[0]), 3, "arrives 40 s before the line above"),
    "no rows": ((FIRST,), 1, "no rows after the header"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_refused_with_its_line(tmp_path: Path, case: str) -> None:
    lines, line, why = BAD_FILES[case]
    with pytest.raises(TraceFormatError) as caught:
        read(write(tmp_path, *lines))
    assert caught.value.line == line
    assert caught.value.why.startswith(why)


@pytest.mark.parametrize("options", [{"path": ""}, {"skip_failed": 1}, {"sort": "yes"}])
def test_bad_options_are_refused(options: Any) -> None:
    with pytest.raises(ConfigError, match="trace"):
        BurstGptTrace(**{"path": "b.csv", **options})
