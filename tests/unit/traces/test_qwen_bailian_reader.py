"""Qwen-Bailian files: links between chats, and what a follow-up finds of its parent's decode."""

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from sim.errors import ConfigError, TraceFormatError
from tests.engine_runs import run_engine
from traces.prefix_compress import compress
from traces.readers.qwen_bailian import QwenBailianTrace
from traces.readers.reading import FaultFinding

GOOD: dict[str, Any] = {
    "chat_id": 5,
    "parent_chat_id": -1,
    "timestamp": 3.5,
    "input_length": 40,
    "output_length": 30,
    "type": "text",
    "turn": 1,
    "hash_ids": [1, 2, 3],
}


def row(chat_id: int, parent: int = -1, /, **changes: Any) -> str:
    return json.dumps({**GOOD, "chat_id": chat_id, "parent_chat_id": parent, **changes})


def write(folder: Path, *rows: str) -> Path:
    path = folder / "t.jsonl"
    path.write_text("\n".join(rows))
    return path


def test_columns_are_seconds_tokens_classes_and_turns_from_0(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        row(9, timestamp=0, type="search"),
        row(4, 9, timestamp=61.114, type="file", turn=2, input_length=16, hash_ids=[8]),
        row(7, timestamp=61.114, type="search"),
    )
    table = QwenBailianTrace(path).load(3)
    assert table.arrival_s.tolist() == [0.0, 61.114, 61.114]
    assert table.prompt_tokens.tolist() == [40, 16, 40]
    assert table.output_tokens.tolist() == [30, 30, 30]
    assert table.turn is not None
    assert table.turn.tolist() == [0, 1, 0]
    assert table.slo_class is not None
    assert table.slo_class.names == ("search", "file")
    assert table.slo_class.codes.tolist() == [0, 1, 0]
    assert table.tenant is None
    assert table.runs is not None
    assert (table.runs.ids.tolist(), table.runs.block_tokens) == ([1, 2, 3, 8, 1, 2, 3], 16)


def test_sessions_are_the_chats_that_go_on_from_one_another(tmp_path: Path) -> None:
    """Chat 100 is not in the file: 20 and 21 go on from it, 20 in turn has a child."""
    path = write(
        tmp_path, row(7), row(20, 100), row(6), row(3, 7), row(21, 100), row(1, 3), row(2, 20)
    )
    table = QwenBailianTrace(path).load(0)
    assert table.session_id is not None
    assert table.parent_id is not None
    assert table.session_id.tolist() == [0, 1, 2, 0, 1, 0, 1]
    assert table.parent_id.tolist() == [-1, -1, -1, 0, -1, 3, 1]
    assert table.provenance["absent_parents"] == 2


def test_provenance_names_format_digest_rows_and_options(tmp_path: Path) -> None:
    path = write(tmp_path, row(1), row(2, 1))
    assert QwenBailianTrace(path, output_reuse=False).load(0).provenance == {
        "format": "qwen_bailian",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "num_rows": 2,
        "options": {"block_tokens": 16, "output_reuse": False, "sort": False},
        "absent_parents": 0,
    }


CHILD = {"timestamp": 1000, "turn": 2, "output_length": 1}

CACHED = {
    "prompt 40 + output 30: blocks up to token 64, one of them across both": (
        {},
        {"input_length": 100, "hash_ids": [1, 2, 4, 5, 6, 7, 8]},
        64,
    ),
    "the last token of a prompt is always computed": (
        {},
        {"input_length": 70, "hash_ids": [1, 2, 4, 5, 6]},
        64,
    ),
    "output of 24 ends with block 3, whose last token was never fed back": (
        {"output_length": 24},
        {"input_length": 100, "hash_ids": [1, 2, 4, 5, 6, 7, 8]},
        48,
    ),
    "one more output token fills block 3": (
        {"output_length": 25},
        {"input_length": 100, "hash_ids": [1, 2, 4, 5, 6, 7, 8]},
        64,
    ),
    "a prompt of whole blocks": (
        {"input_length": 48},
        {"input_length": 100, "hash_ids": [1, 2, 3, 5, 6, 7, 8]},
        64,
    ),
    "shorter than prompt and output: the prompt's full blocks only": (
        {},
        {"input_length": 69, "hash_ids": [1, 2, 4, 5, 6]},
        32,
    ),
    "another second block: no continuation": (
        {},
        {"input_length": 100, "hash_ids": [1, 9, 4, 5, 6, 7, 8]},
        16,
    ),
    "no child of the first": (
        {},
        {"input_length": 100, "hash_ids": [1, 2, 4, 5, 6, 7, 8], "parent_chat_id": -1},
        32,
    ),
}


@pytest.mark.parametrize(("first", "second", "expected"), CACHED.values(), ids=CACHED)
def test_a_follow_up_finds_whole_blocks_of_prompt_and_output(
    tmp_path: Path, first: dict[str, Any], second: dict[str, Any], expected: int
) -> None:
    path = write(tmp_path, row(0, **first), row(1, 0, **{**CHILD, **second}))
    workload = compress(QwenBailianTrace(path).load(0))
    workload.validate()
    result = run_engine(workload, block_tokens=16, budget=4096)
    assert result.requests.cached_tokens.tolist() == [0, expected]


def test_without_output_reuse_only_what_prompts_share_is_found(tmp_path: Path) -> None:
    child = row(1, 0, **{**CHILD, "input_length": 100, "hash_ids": [1, 2, 4, 5, 6, 7, 8]})
    path = write(tmp_path, row(0), child)
    table = QwenBailianTrace(path, output_reuse=False).load(0)
    assert table.output_run is None
    result = run_engine(compress(table), block_tokens=16, budget=4096)
    assert result.requests.cached_tokens.tolist() == [0, 32]


def test_three_turns_end_to_end(tmp_path: Path) -> None:
    """Turn 1 ends at 70, turn 2 asks up to 90 and ends at 120, turn 3 asks up to 130."""
    path = write(
        tmp_path,
        row(0),
        row(1, 0, timestamp=1000, input_length=90, hash_ids=[1, 2, 4, 5, 6, 7]),
        row(2, 1, timestamp=2000, input_length=130, hash_ids=[1, 2, 4, 5, 6, 17, 18, 19, 20]),
    )
    workload = compress(QwenBailianTrace(path).load(0))
    result = run_engine(workload, block_tokens=16, budget=4096)
    assert result.requests.cached_tokens.tolist() == [0, 64, 112]


BAD = {
    "a chat twice": ([row(1), row(1)], 2, "chat_id", "chat_id 1: must be new, line 1 has it too"),
    "its own parent": (
        [row(1, 1)],
        1,
        "parent_chat_id",
        "parent_chat_id 1: must be an earlier chat or -1, that one is on line 1",
    ),
    "a later parent": (
        [row(0), row(1, 2), row(2)],
        2,
        "parent_chat_id",
        "parent_chat_id 2: must be an earlier chat or -1, that one is on line 3",
    ),
    "a negative chat": ([row(-1)], 1, "chat_id", "chat_id -1: must be an integer from 0 to 2**62"),
    "a parent below -1": ([row(1, -2)], 1, "parent_chat_id", "an integer from -1 to 2**62"),
    "a chat of text": ([row(1, chat_id="a")], 1, "chat_id", "chat_id 'a': must be an integer"),
    "turn 0": ([row(1, turn=0)], 1, "turn", "turn 0: must be an integer from 1 to 2**62"),
    "a type without text": ([row(1, type="")], 1, "type", "type '': must be a text of 1 to 200"),
    "a type that cannot be printed": ([row(1, type="\ud800")], 1, "type", "must be a text"),
    "late": ([row(1, timestamp=1e10)], 1, "timestamp", "a number of seconds from the start, 0 to"),
    "few ids": ([row(1, hash_ids=[1])], 1, "hash_ids", "hash_ids has 1 ids: must be 3, one per 16"),
    "no turn": (['{"chat_id": 1}'], 1, "missing key", "keys 'parent_chat_id', 'timestamp'"),
}


@pytest.mark.parametrize(("rows", "line", "kind", "why"), BAD.values(), ids=BAD)
def test_a_bad_row_is_named(
    tmp_path: Path, rows: list[str], line: int, kind: str, why: str
) -> None:
    path = write(tmp_path, *rows)
    with pytest.raises(TraceFormatError) as caught:
        QwenBailianTrace(path).load(0)
    assert caught.value.line == line
    assert why in caught.value.why
    finding = FaultFinding(path)
    table = QwenBailianTrace(path).read(finding)
    assert [(fault.line, fault.kind) for fault in finding.faults] == [(line, kind)]
    assert table.num_requests == len(rows) - 1


def test_rows_are_sorted_on_request_with_their_links(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        row(2, 1, timestamp=9, output_length=2),
        row(1, timestamp=4, output_length=1),
        row(3, 2, timestamp=9, output_length=3),
    )
    with pytest.raises(TraceFormatError, match="5 s before the line above"):
        QwenBailianTrace(path).load(0)
    table = QwenBailianTrace(path, sort=True).load(0)
    assert table.output_tokens.tolist() == [1, 2, 3]
    assert table.parent_id is not None
    assert table.parent_id.tolist() == [-1, 0, 1]


def test_a_child_of_a_bad_row_is_left_without_a_parent(tmp_path: Path) -> None:
    path = write(tmp_path, row(1, output_length=0), row(2, 1), row(3, 4), row(4), row(5, 3))
    finding = FaultFinding(path)
    table = QwenBailianTrace(path).read(finding)
    assert [(f.line, f.kind) for f in finding.faults] == [
        (1, "output_length"),
        (3, "parent_chat_id"),
    ]
    assert table.parent_id is not None
    assert table.parent_id.tolist() == [-1, -1, -1]
    assert table.provenance["num_rows"] == 3


def test_a_packed_file_reads_the_same(tmp_path: Path) -> None:
    path = write(tmp_path, row(1), row(2, 1))
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    plain, unpacked = QwenBailianTrace(path).load(0), QwenBailianTrace(packed).load(0)
    assert plain.provenance == unpacked.provenance
    assert plain.prompt_tokens.tolist() == unpacked.prompt_tokens.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": ""}, "trace.path='': must be the path of a trace file"),
        ({"block_tokens": 0}, "trace.block_tokens=0: must be an integer from 1 to 10,000,000"),
        ({"output_reuse": None}, "trace.output_reuse=None: must be true or false"),
        ({"sort": 1}, "trace.sort=1: must be true or false"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        QwenBailianTrace(**{"path": "t.jsonl", **options})
    assert str(caught.value) == message
