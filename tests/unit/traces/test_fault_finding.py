"""A pass that looks for faults lists every bad row and reads the good ones."""

import json
from pathlib import Path
from typing import Any

import pytest

from sim.errors import TraceFormatError
from traces.prefix_compress import compress
from traces.readers.agent import AgentTrace
from traces.readers.azure import HEADER, AzureTrace
from traces.readers.mooncake import MooncakeTrace
from traces.readers.qwen_bailian import QwenBailianTrace
from traces.readers.reading import FaultFinding

BLOCKS: dict[str, Any] = {"input_length": 5, "output_length": 2, "hash_ids": [1]}


def write(folder: Path, *lines: str) -> Path:
    path = folder / "t"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def found(finding: FaultFinding) -> list[tuple[int, str]]:
    return [(fault.line, fault.kind) for fault in finding.faults]


def call(**changes: Any) -> str:
    return json.dumps({"timestamp": 0, **BLOCKS, **changes})


def test_every_bad_row_of_a_mooncake_file_is_found(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        call(input_length=1),
        "",
        call(timestamp=-1),
        call(timestamp=50, input_length=2),
        "[",
        call(hash_ids=[1, 2]),
        '{"timestamp": 1, "timestamp": 1}',
        call(timestamp=40, input_length=3),
        '{"timestamp": 1}',
        call(timestamp=60, input_length=4),
        call(input_length=0),
        call(output_length=0),
    )
    finding = FaultFinding(path)
    table = MooncakeTrace(path).read(finding)
    assert found(finding) == [
        (2, "blank line"),
        (3, "timestamp"),
        (5, "JSON"),
        (6, "hash_ids"),
        (7, "repeated key"),
        (9, "missing key"),
        (11, "input_length"),
        (12, "output_length"),
        (8, "order"),
    ]
    assert "0.01 s before line 4; rows" in finding.faults[-1].why
    assert table.prompt_tokens.tolist() == [1, 3, 2, 4]
    assert table.arrival_s.tolist() == [0.0, 0.04, 0.05, 0.06]
    assert table.provenance["num_rows"] == 4


def test_every_bad_row_of_an_azure_file_is_found_with_its_line(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        HEADER,
        "2024-05-10 00:00:00+00:00,1,1",
        "2024-05-10 00:00:00+00:00,0,1",
        "",
        "2024-05-10 00:00:07+00:00,2,1",
        "2024-05-10 00:00:03+00:00,3,1",
        "yesterday,1,1",
        "2024-05-10 00:00:05+00:00,4",
        "2024-05-16 23:59:59.999999+00:00,5,x",
        "2024-05-16 23:59:59.999999+00:00,6,7",
    )
    finding = FaultFinding(path)
    table = AzureTrace(path).read(finding)
    assert found(finding) == [
        (3, "ContextTokens"),
        (4, "blank line"),
        (7, "TIMESTAMP"),
        (8, "number of fields"),
        (9, "GeneratedTokens"),
        (6, "order"),
    ]
    assert "4 s before the line above" in finding.faults[-1].why
    assert table.prompt_tokens.tolist() == [1, 3, 2, 6]
    assert table.arrival_s.tolist() == [0.0, 3.0, 7.0, 7 * 86400 - 1e-6]


def test_every_fault_of_a_row_is_found(tmp_path: Path) -> None:
    wrong = {"timestamp": None, "input_length": 0, "output_length": True, "hash_ids": [-1]}
    chat = {**wrong, "chat_id": 0.5, "parent_chat_id": -2, "type": "", "turn": 0}
    agent = {**wrong, "agent": "", "session_id": "s", "call": 2}
    blocks = ["timestamp", "input_length", "output_length", "hash_ids"]
    files = {
        MooncakeTrace: ([json.dumps(wrong)], blocks),
        QwenBailianTrace: (
            [json.dumps(chat)],
            ["chat_id", "parent_chat_id", *blocks, "type", "turn"],
        ),
        AgentTrace: ([json.dumps(agent)], ["agent", "call", *blocks]),
        AzureTrace: (["now,0,x"], ["TIMESTAMP", "ContextTokens", "GeneratedTokens"]),
    }
    for source, (lines, kinds) in files.items():
        path = write(tmp_path, *([HEADER] if source is AzureTrace else []), *lines)
        finding = FaultFinding(path)
        options = {"session_rate_per_s": 1.0} if source is AgentTrace else {}
        assert source(path=path, **options).read(finding).num_requests == 0
        assert [kind for _, kind in found(finding)] == kinds


def test_a_list_of_ids_may_be_empty_where_the_length_is_wrong(tmp_path: Path) -> None:
    finding = FaultFinding(write(tmp_path, call(input_length=0, hash_ids=[])))
    MooncakeTrace(finding.path).read(finding)
    assert found(finding) == [(1, "input_length")]


def test_a_call_with_a_fault_still_takes_its_place_in_the_session(tmp_path: Path) -> None:
    """Only the row with the bad name is wrong, not the one that follows it."""

    def agent(call_number: int, **changes: Any) -> str:
        return call(session_id="s", call=call_number, **{"agent": "a", **changes})

    finding = FaultFinding(write(tmp_path, agent(0, agent=3), agent(1), agent(1, timestamp=-1)))
    AgentTrace(path=finding.path, concurrency=1).read(finding)
    assert found(finding) == [(1, "agent"), (3, "call"), (3, "timestamp")]


def test_sorting_on_request_leaves_no_fault_of_order(tmp_path: Path) -> None:
    path = write(tmp_path, call(timestamp=9), call(timestamp=5), call(timestamp=-2))
    finding = FaultFinding(path)
    assert MooncakeTrace(path, sort=True).read(finding).arrival_s.tolist() == [0.005, 0.009]
    assert found(finding) == [(3, "timestamp")]


SOURCES = {
    "mooncake": MooncakeTrace,
    "azure": AzureTrace,
    "qwen_bailian": QwenBailianTrace,
    "agent": lambda path: AgentTrace(path=path, session_rate_per_s=1.0),
    "agents": lambda path: AgentTrace(path=path, concurrency=3),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_a_file_without_a_good_row_gives_an_empty_table(tmp_path: Path, source: Any) -> None:
    path = write(tmp_path, HEADER, "bad", "bad")
    finding = FaultFinding(path)
    table = source(path).read(finding)
    assert table.num_requests == 0
    assert len(finding.faults) == (2 if source is AzureTrace else 3)
    assert compress(table).num_requests == 0


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_what_makes_a_file_unreadable_is_refused_in_any_pass(tmp_path: Path, source: Any) -> None:
    absent = tmp_path / "absent"
    with pytest.raises(TraceFormatError, match="no such file"):
        source(absent).read(FaultFinding(absent))
