"""Parquet files of others: columns by name and of any fitting type, and a row for every fault."""

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sim.errors import TraceFormatError
from traces.readers import parquet_file
from traces.readers.parquet_table import ParquetTrace
from traces.readers.reading import FaultFinding
from traces.schema import TraceTable

NAMES = {"arrival_s": "t", "prompt_tokens": "in", "output_tokens": "out"}

GOOD: dict[str, Any] = {"t": [10.5, 11.0, 13.0], "in": [20, 30, 40], "out": [1, 2, 3]}


def write(folder: Path, **columns: Any) -> Path:
    path = folder / "t.parquet"
    pq.write_table(pa.table({**GOOD, **columns}), path)
    return path


def read(path: Path, **options: Any) -> TraceTable:
    return ParquetTrace(path, **{"columns": NAMES, **options}).load(0)


def test_columns_are_found_by_name(tmp_path: Path) -> None:
    path = write(tmp_path, other=["a", "b", "c"])
    table = read(path)
    assert table.arrival_s.tolist() == [0.0, 0.5, 2.5]
    assert table.prompt_tokens.tolist() == [20, 30, 40]
    assert table.output_tokens.tolist() == [1, 2, 3]
    assert table.provenance == {
        "format": "parquet",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "num_rows": 3,
        "options": {
            "columns": NAMES,
            "time_unit": "s",
            "time_origin": "first",
            "block_tokens": None,
            "sort": False,
        },
    }


@pytest.mark.parametrize(
    "tokens",
    [
        pa.array([20, 30, 40], pa.uint8()),
        pa.array([20, 30, 40], pa.uint64()),
        pa.array([20.0, 30.0, 40.0], pa.float32()),
        pa.array(["20", "30", "40"]).cast(pa.int16()),
    ],
)
def test_token_counts_may_be_of_any_type_of_number(tmp_path: Path, tokens: Any) -> None:
    table = read(write(tmp_path, **{"in": tokens}))
    assert table.prompt_tokens.tolist() == [20, 30, 40]
    assert table.prompt_tokens.dtype == "int64"


EPOCH = datetime(2023, 11, 16, 18, 17, 3)

TIMES = [EPOCH, EPOCH + timedelta(microseconds=1), EPOCH + timedelta(hours=1)]


@pytest.mark.parametrize(
    ("unit", "times"),
    [
        ("iso8601", pa.array(TIMES, pa.timestamp("us"))),
        ("iso8601", pa.array(TIMES, pa.timestamp("ns"))),
        ("iso8601", pa.array([t.replace(tzinfo=UTC) for t in TIMES])),
        ("iso8601", pa.array([t.isoformat() for t in TIMES])),
        ("iso8601", pa.array([t.isoformat() for t in TIMES]).dictionary_encode()),
        ("ns", pa.array([1_700_000_000_000_000_000 + d for d in (0, 1_000, 3_600_000_000_000)])),
        ("us", pa.array([7.0, 8.0, 7 + 3.6e9])),
        ("ms", pa.array([-1e-3, 0.0, 3.6e6 - 1e-3])),
    ],
)
def test_times_of_every_unit_and_type(tmp_path: Path, unit: str, times: Any) -> None:
    table = read(write(tmp_path, t=times), time_unit=unit)
    assert table.arrival_s.tolist() == pytest.approx([0.0, 1e-6, 3600.0], rel=1e-12)


def test_whole_seconds_of_a_timestamp_are_seconds(tmp_path: Path) -> None:
    path = write(tmp_path, t=pa.array([5, 6, 9], pa.timestamp("s")))
    assert read(path, time_unit="iso8601").arrival_s.tolist() == [0.0, 1.0, 4.0]


@pytest.mark.parametrize("names", [["x", None, "y"], [7, None, 8]])
@pytest.mark.parametrize("is_dictionary", [True, False])
def test_names_may_be_text_or_integers_dictionary_encoded_or_not(
    tmp_path: Path, names: list[Any], is_dictionary: bool
) -> None:
    array = pa.array(names)
    path = write(tmp_path, who=array.dictionary_encode() if is_dictionary else array)
    table = read(path, columns={**NAMES, "tenant": "who", "session_id": "who"})
    assert table.tenant is not None
    assert [table.tenant.name_of(i) for i in range(3)] == [
        None if name is None else str(name) for name in names
    ]
    assert table.session_id is not None
    assert table.session_id.tolist() == [0, -1, 1]


@pytest.mark.parametrize(
    "ids",
    [
        pa.array([[1, 2], [], [1, 2**40, 3]], pa.list_(pa.int64())),
        pa.array([[1, 2], None, [1, 2**40, 3]], pa.large_list(pa.uint64())),
        pa.array(["1 2", None, "[1, 1099511627776, 3]"]),
    ],
)
def test_hash_ids_may_be_lists_or_text(tmp_path: Path, ids: Any) -> None:
    table = read(write(tmp_path, ids=ids), columns={**NAMES, "hash_ids": "ids"}, block_tokens=16)
    assert table.runs is not None
    assert table.runs.ids.tolist() == [1, 2, 1, 2**40, 3]
    assert table.runs.offsets.tolist() == [0, 2, 2, 5]


def test_fixed_lists_are_lists(tmp_path: Path) -> None:
    ids = pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int32(), 2))
    table = read(write(tmp_path, ids=ids), columns={**NAMES, "hash_ids": "ids"}, block_tokens=16)
    assert table.runs is not None
    assert table.runs.ids.tolist() == [1, 2, 3, 4, 5, 6]


def test_a_file_read_in_many_batches_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, who=pa.array(["x", "y", "x"]).dictionary_encode(), ids=[[4], [5, 6], []])
    columns = {**NAMES, "tenant": "who", "hash_ids": "ids"}
    for rows in (1, 2, 3):
        monkeypatch.setattr(parquet_file, "BATCH_ROWS", rows)
        table = read(path, columns=columns, block_tokens=16)
        assert table.tenant is not None and table.runs is not None
        assert (table.tenant.names, table.tenant.codes.tolist()) == (("x", "y"), [0, 1, 0])
        assert table.runs.ids.tolist() == [4, 5, 6]
        assert table.runs.offsets.tolist() == [0, 1, 3, 3]


BAD_COLUMNS: dict[str, tuple[dict[str, Any], int, str]] = {
    "null time": ({"t": [1.0, None, 2.0]}, 2, "t 'None': must be a number of s"),
    "nan": ({"t": [1.0, float("nan"), 2.0]}, 2, "t 'nan': must be a number of s"),
    "null tokens": ({"in": [20, None, 40]}, 2, "in None: must be an integer from 1 to 10,000,000"),
    "zero": ({"out": [1, 2, 0]}, 3, "out 0: must be an integer from 1 to 10,000,000"),
    "half": ({"out": [1.0, 2.5, 3.0]}, 2, "out 2.5: must be an integer from 1 to 10,000,000"),
    "nan tokens": ({"out": [1.0, float("nan"), 3.0]}, 2, "out nan: must be an integer from 1"),
    "huge": (
        {"out": pa.array([1, 2, 2**64 - 1], pa.uint64())},
        3,
        "out 18446744073709551615: must",
    ),
    "turn": ({"n": [0, -1, 0]}, 2, "n -1: must be an integer from 0 to"),
    "negative id": ({"ids": [[1], [2, -3], [4]]}, 2, "ids [2, -3]: must be integers from 0 to"),
    "null id": ({"ids": [[1], [None], [4]]}, 2, "ids [None]: must be integers from 0 to"),
    "large id": (
        {"ids": pa.array([[2**64 - 1], [2], [4]], pa.list_(pa.uint64()))},
        1,
        "ids [18446744073709551615]: must be integers from 0 to",
    ),
    "ids": ({"ids": [[1], [2], [1, 2, 3, 4]]}, 3, "ids has 4 ids: must be at most one per started"),
    "disorder": ({"t": [1.0, 3.0, 2.0]}, 3, "arrives 1 s before the line above"),
}


@pytest.mark.parametrize("case", BAD_COLUMNS)
def test_a_bad_value_is_refused_with_its_row(tmp_path: Path, case: str) -> None:
    changed, row, why = BAD_COLUMNS[case]
    path = write(tmp_path, **{"ids": [[], [], []], "n": [0, 0, 0], **changed})
    options: Any = {"columns": {**NAMES, "turn": "n", "hash_ids": "ids"}, "block_tokens": 16}
    with pytest.raises(TraceFormatError) as caught:
        read(path, **options)
    assert caught.value.line == row
    assert caught.value.why.startswith(why)
    finding = FaultFinding(path)
    table = ParquetTrace(path, **options).read(finding)
    assert [fault.line for fault in finding.faults] == [row]
    num_good = 3 if case == "disorder" else 2
    assert table.num_requests == num_good
    assert table.runs is not None
    assert table.runs.offsets[-1] == len(table.runs.ids)


def test_timestamps_beyond_nanoseconds_are_refused(tmp_path: Path) -> None:
    times = pa.array([0, 1, 10**11], pa.timestamp("s"))
    with pytest.raises(TraceFormatError, match=r"t.parquet:3: t '5138.*': must be a timestamp of"):
        read(write(tmp_path, t=times), time_unit="iso8601")


def test_only_bad_rows_give_no_row(tmp_path: Path) -> None:
    path = write(tmp_path, out=[0, 0, 0], ids=[[], [], []])
    options: Any = {"columns": {**NAMES, "hash_ids": "ids"}, "block_tokens": 16}
    assert ParquetTrace(path, **options).read(FaultFinding(path)).num_requests == 0


BAD_TYPES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "missing": (
        {},
        {"columns": {**NAMES, "turn": "out2"}},
        r"no column 'out2' \(trace.columns.turn\)",
    ),
    "text": ({"in": ["a", "b", "c"]}, {}, "column in is of type string: must be an integer"),
    "number": ({"t": TIMES}, {}, r"column t is of type timestamp\[us\]: must be a number of s"),
    "date": (
        {},
        {"time_unit": "iso8601"},
        "column t is of type double: must be a timestamp or text",
    ),
    "name": ({}, {"columns": {**NAMES, "tenant": "t"}}, "must be text or an integer"),
    "ids": (
        {},
        {"columns": {**NAMES, "hash_ids": "t"}, "block_tokens": 1},
        "column t is of type double: must be a list of integers, or text",
    ),
    "lists": (
        {"ids": [["a"], ["b"], ["c"]]},
        {"columns": {**NAMES, "hash_ids": "ids"}, "block_tokens": 1},
        "must be a list of integers, or text",
    ),
}


@pytest.mark.parametrize("case", BAD_TYPES)
def test_missing_and_mistyped_columns_are_refused(tmp_path: Path, case: str) -> None:
    columns, options, why = BAD_TYPES[case]
    with pytest.raises(TraceFormatError, match=why):
        read(write(tmp_path, **columns), **options)


def test_columns_of_nulls_have_no_names_and_no_ids(tmp_path: Path) -> None:
    path = write(tmp_path, who=[None, None, None], ids=[[], None, []])
    columns = {**NAMES, "tenant": "who", "hash_ids": "ids"}
    table = read(path, columns=columns, block_tokens=16)
    assert table.tenant is not None
    assert (table.tenant.names, table.tenant.codes.tolist()) == ((), [-1, -1, -1])
    assert table.runs is not None
    assert table.runs.offsets.tolist() == [0, 0, 0, 0]


def test_a_repeated_column_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    arrays = [pa.array([1.0]), pa.array([2]), pa.array([3]), pa.array([3])]
    pq.write_table(pa.Table.from_arrays(arrays, names=["t", "in", "out", "out"]), path)
    with pytest.raises(TraceFormatError, match="column 'out' occurs more than once"):
        read(path)


def test_sort_orders_the_rows(tmp_path: Path) -> None:
    table = read(write(tmp_path, t=[2.0, 1.0, 1.0]), sort=True)
    assert table.arrival_s.tolist() == [0.0, 0.0, 1.0]
    assert table.prompt_tokens.tolist() == [30, 40, 20]
