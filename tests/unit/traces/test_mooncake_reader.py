"""Mooncake files: what a row means, and one exact line for every way to break it."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim.errors import ConfigError, TraceFormatError
from traces.readers.mooncake import MooncakeTrace, read_mooncake

GOOD: dict[str, Any] = {
    "timestamp": 3000,
    "input_length": 1000,
    "output_length": 5,
    "hash_ids": [7, 8],
}


def row(**changes: Any) -> str:
    return json.dumps({**GOOD, **changes})


def without(key: str) -> str:
    return json.dumps({k: v for k, v in GOOD.items() if k != key})


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "t.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_columns_are_in_seconds_and_tokens_with_the_ids_of_each_row(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        row(timestamp=0, input_length=512, hash_ids=[4])
        + "\n"
        + row(timestamp=27.5, input_length=513, output_length=9, hash_ids=[4, 2])
        + "\n",
    )
    table = read_mooncake(path)
    assert table.arrival_s.tolist() == [0.0, 0.0275]
    assert table.prompt_tokens.tolist() == [512, 513]
    assert table.output_tokens.tolist() == [5, 9]
    assert table.runs is not None
    assert table.runs.ids.tolist() == [4, 4, 2]
    assert table.runs.offsets.tolist() == [0, 1, 3]
    assert table.runs.block_tokens == 512
    assert table.arrival_s.dtype == np.float64
    assert table.prompt_tokens.dtype == table.output_tokens.dtype == np.int64


def test_provenance_names_format_digest_rows_and_options(tmp_path: Path) -> None:
    path = write(tmp_path, row(hash_ids=list(range(63))) + "\n")
    table = MooncakeTrace(path, block_tokens=16, sort=True).load(seed=5)
    assert table.provenance == {
        "format": "mooncake",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "num_rows": 1,
        "options": {"block_tokens": 16, "sort": True},
    }


@pytest.mark.parametrize(
    "ending", ["", "\n", "\r\n"], ids=["no newline", "newline", "carriage return"]
)
def test_the_last_line_may_end_in_any_way(tmp_path: Path, ending: str) -> None:
    assert read_mooncake(write(tmp_path, row() + ending)).num_requests == 1


def test_colons_and_equal_keys_of_different_objects_are_no_repetition(tmp_path: Path) -> None:
    more = {"at": "12:30:00", "one": {"a": 1}, "other": {"a": 2}, "timestamp:": 3}
    assert read_mooncake(write(tmp_path, row(**more) + "\n" + row())).num_requests == 2


def test_a_byte_order_mark_is_not_part_of_the_first_row(tmp_path: Path) -> None:
    path = write(tmp_path, b"\xef\xbb\xbf" + row().encode())
    table = read_mooncake(path)
    assert table.num_requests == 1
    assert table.provenance["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_ids_take_4_bytes_until_one_does_not_fit(tmp_path: Path) -> None:
    rows = [[7, 2**31 - 1], [8, 2**31], [9, 10]]
    for num_rows, dtype in ((1, np.int32), (3, np.int64)):
        lines = "\n".join(row(hash_ids=ids) for ids in rows[:num_rows])
        runs = read_mooncake(write(tmp_path, lines)).runs
        assert runs is not None
        assert runs.ids.dtype == dtype
        assert runs.ids.tolist() == [i for ids in rows[:num_rows] for i in ids]


def test_ids_beyond_32_bits_survive(tmp_path: Path) -> None:
    table = read_mooncake(write(tmp_path, row(hash_ids=[2**31, 2**62])))
    assert table.runs is not None
    assert table.runs.ids.tolist() == [2**31, 2**62]


LENGTH_RANGE = "must be an integer from 1 to 10,000,000"
TIME_RANGE = "must be a number of milliseconds from the start, 0 to 1,000,000,000,000"

BAD_ROWS = {
    "truncated": (row()[:-10], ["not valid JSON", "at column"]),
    "not json": ("hello", ["not valid JSON", "Expecting value at column 1"]),
    "two objects": (row() + row(), ["not valid JSON", "Extra data"]),
    "endless number": (
        row(timestamp=1).replace(": 1,", ": " + "9" * 5000 + ","),
        ["not valid JSON"],
    ),
    "too deep": ("[" * 200_000, ["not valid JSON"]),
    "blank": ("", ["blank line", "must be a JSON object"]),
    "spaces": ("   ", ["blank line"]),
    "a list": ("[1, 2]", ["[1, 2]", "must be a JSON object with timestamp"]),
    "null": ("null", ["None", "must be a JSON object"]),
    **{
        f"no {key}": (without(key), [f"key '{key}' is missing", "timestamp, input_length"])
        for key in GOOD
    },
    "negative length": (row(input_length=-5), ["input_length -5", LENGTH_RANGE]),
    "zero length": (row(input_length=0), ["input_length 0", LENGTH_RANGE]),
    "absurd length": (row(input_length=10**7 + 1), ["input_length 10000001", LENGTH_RANGE]),
    "fractional length": (row(input_length=1000.5), ["input_length 1000.5", LENGTH_RANGE]),
    "float length": (row(input_length=1000.0), ["input_length 1000.0", LENGTH_RANGE]),
    "boolean length": (row(input_length=True), ["input_length True", LENGTH_RANGE]),
    "text length": (row(input_length="1000"), ["input_length '1000'", LENGTH_RANGE]),
    "null length": (row(input_length=None), ["input_length None", LENGTH_RANGE]),
    "no output": (row(output_length=0), ["output_length 0", LENGTH_RANGE]),
    "negative output": (row(output_length=-1), ["output_length -1", LENGTH_RANGE]),
    "absurd output": (row(output_length=10**30), ["output_length 1000000", LENGTH_RANGE]),
    "boolean output": (row(output_length=True), ["output_length True", LENGTH_RANGE]),
    "NaN time": (row(timestamp=float("nan")), ["timestamp nan", TIME_RANGE]),
    "infinite time": (row(timestamp=float("inf")), ["timestamp inf", TIME_RANGE]),
    "overflowing time": (row().replace("3000", "1e999"), ["timestamp inf", TIME_RANGE]),
    "negative time": (row(timestamp=-1), ["timestamp -1", TIME_RANGE]),
    "time since the epoch": (row(timestamp=1.7e12), ["timestamp 1700000000000.0", TIME_RANGE]),
    "huge time": (row(timestamp=10**400), ["timestamp 1000000", TIME_RANGE]),
    "text time": (row(timestamp="12"), ["timestamp '12'", TIME_RANGE]),
    "boolean time": (row(timestamp=True), ["timestamp True", TIME_RANGE]),
    "ids are text": (row(hash_ids="7,8"), ["hash_ids '7,8'", "must be a list of integers"]),
    "ids are null": (row(hash_ids=None), ["hash_ids None", "must be a list of integers"]),
    "an id is text": (row(hash_ids=[7, "x"]), ["hash_ids contains 'x'", "integers from 0"]),
    "an id is a float": (row(hash_ids=[7, 8.0]), ["hash_ids contains 8.0", "integers from 0"]),
    "an id is boolean": (row(hash_ids=[True, 8]), ["hash_ids contains True", "integers from 0"]),
    "an id is negative": (row(hash_ids=[7, -8]), ["hash_ids contains -8", "integers from 0"]),
    "an id is huge": (row(hash_ids=[7, 2**63]), ["hash_ids contains 9223372036854775808"]),
    "an id is a list": (row(hash_ids=[7, [8]]), ["hash_ids contains [8]", "integers from 0"]),
    "too few ids": (row(hash_ids=[7]), ["hash_ids has 1 ids", "must be 2", "input_length 1000"]),
    "too many ids": (row(hash_ids=[7, 8, 9]), ["hash_ids has 3 ids", "must be 2", "512 tokens"]),
    "a repeated key": (
        row().replace("{", '{"input_length": 9, ', 1),
        ["key 'input_length' appears twice"],
    ),
    "a repeated key in two spellings": (
        row().replace("{", '{"input\\u005flength": 9, ', 1),
        ["key 'input_length' appears twice"],
    ),
    "a repeated key inside one that is not read": (
        row(more=1).replace('"more": 1', '"more": {"a": 1, "a": 2}'),
        ["key 'a' appears twice"],
    ),
    "no ids": (row(hash_ids=[]), ["hash_ids has 0 ids", "must be 2", "trace.block_tokens"]),
}


@pytest.mark.parametrize(("text", "pieces"), BAD_ROWS.values(), ids=BAD_ROWS.keys())
def test_a_bad_row_is_named_by_line_value_and_what_is_allowed(
    tmp_path: Path, text: str, pieces: list[str]
) -> None:
    path = write(tmp_path, f"{row()}\n{row()}\n{text}\n{row()}\n")
    with pytest.raises(TraceFormatError) as caught:
        read_mooncake(path)
    assert (caught.value.path, caught.value.line) == (str(path), 3)
    for piece in pieces:
        assert piece in caught.value.why
    assert "\n" not in str(caught.value)
    assert len(caught.value.why) < 250


def test_a_second_newline_at_the_end_is_a_blank_line(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError) as caught:
        read_mooncake(write(tmp_path, f"{row()}\n\n"))
    assert caught.value.line == 2
    assert "blank line" in caught.value.why


def test_bytes_that_are_not_utf8_are_named_with_their_line(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError) as caught:
        read_mooncake(write(tmp_path, row().encode() + b"\n" + b'{"timestamp": "\xff"}\n'))
    assert caught.value.line == 2
    assert "byte 0xff is not UTF-8" in caught.value.why


@pytest.mark.parametrize("text", ["", "\n", " \n\n"])
def test_a_file_without_rows_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(TraceFormatError) as caught:
        read_mooncake(write(tmp_path, text))
    assert caught.value.line == 0
    assert "is empty, must have at least one row" in caught.value.why


def test_a_missing_file_a_directory_and_a_bad_name_are_refused(tmp_path: Path) -> None:
    for path, why in (
        (tmp_path / "absent.jsonl", "no such file"),
        (tmp_path, "is a directory"),
        (Path("a\0b"), "cannot be read"),
        (tmp_path / ("x" * 5000), "cannot be read"),
    ):
        with pytest.raises(TraceFormatError) as caught:
            read_mooncake(path)
        assert (caught.value.path, caught.value.line) == (str(path), 0)
        assert why in caught.value.why


def out_of_order(folder: Path) -> Path:
    rows = [
        row(timestamp=0, output_length=1, hash_ids=[1, 2]),
        row(timestamp=9000, output_length=2, input_length=100, hash_ids=[3]),
        row(timestamp=3000, output_length=3, hash_ids=[1, 4]),
        row(timestamp=3000, output_length=4, input_length=9, hash_ids=[5]),
    ]
    return write(folder, "\n".join(rows))


def test_disorder_is_refused_with_its_line_and_the_option_that_sorts(tmp_path: Path) -> None:
    with pytest.raises(TraceFormatError) as caught:
        read_mooncake(out_of_order(tmp_path))
    assert caught.value.line == 3
    assert "6 s before the line above" in caught.value.why
    assert "trace.sort=true" in caught.value.why


def test_sort_is_stable_and_moves_the_ids_along(tmp_path: Path) -> None:
    table = read_mooncake(out_of_order(tmp_path), sort=True)
    assert table.arrival_s.tolist() == [0.0, 3.0, 3.0, 9.0]
    assert table.output_tokens.tolist() == [1, 3, 4, 2]
    assert table.runs is not None
    assert table.runs.ids.tolist() == [1, 2, 1, 4, 5, 3]
    assert table.runs.offsets.tolist() == [0, 2, 4, 5, 6]


def test_sort_keeps_the_order_of_many_rows_of_equal_time(tmp_path: Path) -> None:
    rows = [row(timestamp=1 - i // 100, output_length=i + 1) for i in range(200)]
    table = read_mooncake(write(tmp_path, "\n".join(rows)), sort=True)
    assert table.output_tokens.tolist() == [*range(101, 201), *range(1, 101)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": ""}, "trace.path='': must be the path of a trace file"),
        ({"path": None}, "trace.path=None: must be the path of a trace file"),
        ({"block_tokens": 0}, "trace.block_tokens=0: must be an integer from 1 to 10,000,000"),
        ({"block_tokens": 1.5}, "trace.block_tokens=1.5: must be an integer from 1 to 10,000,000"),
        (
            {"block_tokens": True},
            "trace.block_tokens=True: must be an integer from 1 to 10,000,000",
        ),
        ({"sort": "yes"}, "trace.sort='yes': must be true or false"),
    ],
)
def test_bad_options_are_refused_when_the_trace_is_described(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        MooncakeTrace(**{"path": "t.jsonl", **options})
    assert str(caught.value) == message


def test_a_line_cut_inside_a_key_is_named_once(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl"
    path.write_text(
        '{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [1]}\n{"ti\n'
    )
    with pytest.raises(TraceFormatError) as caught:
        MooncakeTrace(path=str(path)).load(0)
    assert str(caught.value) == f"{path}:2: not valid JSON: Invalid control character at column 5"


def test_a_line_cut_short_is_said_to_end_where_it_does(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl"
    path.write_text('{"timestamp": 0, "input_length": 5\n')
    with pytest.raises(TraceFormatError, match=r"delimiter at column 35$"):
        read_mooncake(path)
