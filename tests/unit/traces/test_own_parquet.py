"""Our own parquet: tables come back as they were written; edited files are refused in one line."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sim.errors import ConfigError, TraceFormatError
from sim.workload import Labels
from tests.unit.traces.same_table import assert_same_table
from traces.parquet_layout import METADATA_KEY
from traces.readers import parquet_file
from traces.readers.parquet_table import ParquetTrace
from traces.readers.reading import FaultFinding, Reading
from traces.schema import PromptRuns, TraceTable
from traces.writers import parquet
from traces.writers.parquet import write_table


def ints(*values: int) -> Any:
    return np.array(values, dtype=np.int64)


PLAIN = TraceTable(
    arrival_s=np.array([0.0, 0.1 + 0.2, 7.5]),
    prompt_tokens=ints(5, 1, 40),
    output_tokens=ints(1, 2, 3),
    provenance={"format": "by hand", "sha256": None, "num_rows": 3, "options": {"a": [1, 2.5]}},
)

BLOCKS = replace(
    PLAIN,
    runs=PromptRuns(
        ids=np.array([7, 9, 7, 8, 2**31 - 1], dtype=np.int32),
        offsets=ints(0, 2, 2, 5),
        block_tokens=4,
    ),
    tenant=Labels(ints(1, -1, 0), ("später", "unused", "b")),
    concurrency=2,
)

FULL = TraceTable(
    arrival_s=np.array([0.0, 1.0, 1.0]),
    prompt_tokens=ints(5, 9, 4),
    output_tokens=ints(4, 2, 3),
    runs=PromptRuns(ids=ints(2**40, 3, 4, 5), offsets=ints(0, 1, 3, 4), tokens=ints(5, 5, 4, 2)),
    output_run=ints(3, -1, -1),
    session_id=ints(0, 0, -1),
    turn=ints(0, 1, 0),
    parent_id=ints(-1, 0, -1),
    tenant=Labels(ints(0, 0, 1), ("x", "y")),
    slo_class=Labels(ints(-1, -1, -1), ()),
    priority=ints(-3, 0, 2),
    after=ints(-1, 0, -1),
    delay_s=np.array([0.0, 0.25, 0.0]),
    provenance={"format": "sessions", "seed": 3},
)

TABLES = {"plain": PLAIN, "blocks": BLOCKS, "full": FULL}


def written(folder: Path, table: TraceTable) -> Path:
    path = folder / "t.parquet"
    write_table(path, table)
    return path


@pytest.mark.parametrize("name", TABLES)
def test_a_table_comes_back_with_its_types(tmp_path: Path, name: str) -> None:
    assert_same_table(ParquetTrace(written(tmp_path, TABLES[name])).load(0), TABLES[name])


def test_provenance_keeps_the_one_that_was_written(tmp_path: Path) -> None:
    path = written(tmp_path, PLAIN)
    assert ParquetTrace(str(path)).load(1).provenance == {
        "format": "parquet",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "num_rows": 3,
        "options": {"sort": False},
        "source": PLAIN.provenance,
    }


@pytest.mark.parametrize("name", TABLES)
def test_groups_and_batches_of_any_size_give_the_same_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for rows, ids, batch in ((1, 100, 2), (2, 100, 1), (100, 1, 3), (100, 2, 100)):
        monkeypatch.setattr(parquet, "GROUP_ROWS", rows)
        monkeypatch.setattr(parquet, "GROUP_IDS", ids)
        monkeypatch.setattr(parquet_file, "BATCH_ROWS", batch)
        path = written(tmp_path, TABLES[name])
        assert_same_table(ParquetTrace(path).load(0), TABLES[name])


def test_row_groups_end_after_so_many_rows_or_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def group_rows() -> list[int]:
        metadata = pq.ParquetFile(written(tmp_path, BLOCKS)).metadata
        return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]

    assert group_rows() == [3]
    monkeypatch.setattr(parquet, "GROUP_ROWS", 2)
    assert group_rows() == [2, 1]
    monkeypatch.setattr(parquet, "GROUP_IDS", 1)
    assert group_rows() == [1, 2]


def test_the_same_table_gives_the_same_bytes(tmp_path: Path) -> None:
    first = written(tmp_path, FULL).read_bytes()
    assert written(tmp_path, replace(FULL)).read_bytes() == first
    assert written(tmp_path, replace(FULL, concurrency=3)).read_bytes() != first


def test_writing_and_reading_tell_how_far_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "GROUP_ROWS", 2)
    monkeypatch.setattr(parquet_file, "BATCH_ROWS", 2)
    wrote: list[tuple[int, int]] = []
    read: list[tuple[int, int]] = []
    path = tmp_path / "t.parquet"
    write_table(path, PLAIN, lambda *step: wrote.append(step))
    assert wrote == [(2, 3), (3, 3)]
    ParquetTrace(path).read(Reading(path, lambda *step: read.append(step)))
    size = path.stat().st_size
    assert read == [(size * 2 // 3, size), (size, size)]


def test_others_read_names_and_lists(tmp_path: Path) -> None:
    rows = pq.read_table(written(tmp_path, BLOCKS)).to_pylist()
    assert [row["tenant"] for row in rows] == ["unused", None, "später"]
    assert [row["run_ids"] for row in rows] == [[7, 9], [], [7, 8, 2**31 - 1]]


def test_a_failed_write_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, PLAIN)
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=r"label .*is no valid text"):
        write_table(path, replace(PLAIN, tenant=Labels(ints(0, 0, 0), ("\ud800",))))
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["t.parquet"]


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = written(tmp_path, PLAIN)
    before, kept = path.read_bytes(), tmp_path / "kept"
    os.link(path, kept)
    write_table(path, FULL)
    assert kept.read_bytes() == before
    assert_same_table(ParquetTrace(path).load(0), FULL)


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent/t\.parquet: cannot be written: No such file"):
        write_table(tmp_path / "absent" / "t.parquet", PLAIN)


def refusal(path: Path, **options: Any) -> TraceFormatError:
    """The error of a strict pass; a pass that looks for faults must not crash."""
    trace = ParquetTrace(path, **options)
    with pytest.raises(TraceFormatError) as caught:
        trace.load(0)
    try:
        trace.read(FaultFinding(path))
    except TraceFormatError as error:
        assert str(error) == str(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value


def edited(
    path: Path,
    columns: Mapping[str, Any] | None = None,
    header: Mapping[str, Any] | None = None,
    drop: str | None = None,
) -> Path:
    """The file with other values in some columns, or with another header."""
    table = pq.read_table(path)
    document = json.loads(table.schema.metadata[METADATA_KEY])
    if drop is not None:
        table = table.drop_columns([drop])
    for name, values in (columns or {}).items():
        array = values if isinstance(values, pa.Array) else pa.array(values, _type(table, name))
        if name in table.column_names:
            table = table.set_column(table.column_names.index(name), name, array)
        else:
            table = table.append_column(name, array)
    document.update(header or {})
    table = table.replace_schema_metadata({METADATA_KEY: json.dumps(document)})
    pq.write_table(table, path)
    return path


def _type(table: Any, name: str) -> Any:
    return table.schema.field(name).type


BAD_COLUMNS: dict[str, tuple[dict[str, list[Any]], int, str]] = {
    "negative time": ({"arrival_s": [0, 1, -1.0]}, 3, "arrival_s -1.0: must be a number of"),
    "nan": ({"arrival_s": [0, float("nan"), 1]}, 2, "arrival_s nan: must be a number of seconds"),
    "late": ({"arrival_s": [0, 1, 2e9]}, 3, "from 0 to 1,000,000,000"),
    "disorder": ({"arrival_s": [0, 2.5, 1]}, 3, "arrives 1.5 s before the line above"),
    "no prompt": ({"prompt_tokens": [5, 0, 4]}, 2, "prompt_tokens 0: must be an integer from 1"),
    "negative output": ({"output_tokens": [4, 2, -3]}, 3, "output_tokens -3: must be an integer"),
    "null": ({"turn": [0, None, 1]}, 2, "turn is null, must have a value"),
    "null list": ({"run_ids": [[1], None, [2, 3, 4]]}, 2, "run_ids is null, must be a list"),
    "session": ({"session_id": [0, 0, -2]}, 3, "session_id -2: must be an integer from -1"),
    "parent": ({"parent_id": [-1, 3, -1]}, 2, "parent_id 3: must be an integer from -1 to 2"),
    "after itself": ({"after": [-1, 1, -1]}, 2, "after 1: must be -1 or an earlier row"),
    "after later": ({"after": [-1, 2, -1]}, 2, "after 2: must be -1 or an earlier row"),
    "after nobody": ({"after": [-1, 0, 3]}, 3, "after 3: must be an integer from -1 to 2"),
    "delay": ({"delay_s": [0, 0, -0.5]}, 3, "delay_s -0.5: must be a number of seconds"),
    "label": ({"tenant": ["x", "z", "y"]}, 2, "tenant 'z': must be a label that the metadata"),
    "negative id": ({"run_ids": [[1], [2, -5], [6]]}, 2, "run_ids -5: must be integers from 0"),
    "large id": ({"run_ids": [[1], [2, 2**62 + 1], [6]]}, 2, f"run_ids {2**62 + 1}: must be"),
    "no tokens": ({"run_tokens": [[5], [5, 4], [0]]}, 3, "run_tokens 0: must be integers from 1"),
    "too long": ({"run_tokens": [[5], [5, 5], [2]]}, 2, "run_tokens of 10 in all: must be at most"),
    "not whole": ({"run_tokens": [[4], [5, 4], [2]]}, 1, "run_tokens of 4 in all: must be at most"),
    "lengths": ({"run_tokens": [[5], [9], [4, 1]]}, 2, "must have as many run_tokens as run_ids"),
    "null id": ({"run_ids": [[1], [2, None], [6]]}, 2, "run_ids contains null, must be integers"),
    "output run": ({"output_run": [3, -2, -1]}, 2, "output_run -2: must be an integer from -1"),
    "large": ({"priority": [0, 0, 2**62 + 1]}, 3, f"priority {2**62 + 1}: must be an integer"),
}


@pytest.mark.parametrize("case", BAD_COLUMNS)
def test_an_edited_column_is_refused_with_its_row(tmp_path: Path, case: str) -> None:
    columns, row, why = BAD_COLUMNS[case]
    changed = {name: _loose(name, values) for name, values in columns.items()}
    error = refusal(edited(written(tmp_path, FULL), changed))
    assert error.line == row
    assert why in error.why


def _loose(name: str, values: list[Any]) -> Any:
    """Nulls and null elements are written too."""
    if name in ("run_ids", "run_tokens"):
        return pa.array(values, pa.list_(pa.int64()))
    if name in ("arrival_s", "delay_s"):
        return pa.array(values, pa.float64())
    return pa.array(values, pa.string() if name == "tenant" else pa.int64())


def test_all_faults_are_found_and_their_rows_left_out(tmp_path: Path) -> None:
    path = edited(
        written(tmp_path, FULL),
        {"prompt_tokens": [0, 9, 4], "turn": [-7, 1, 0], "delay_s": [0.0, 0.25, -1.0]},
    )
    finding = FaultFinding(path)
    table = ParquetTrace(path).read(finding)
    assert [(fault.line, fault.kind) for fault in finding.faults] == [
        (1, "prompt_tokens"),
        (1, "turn"),
        (1, "run_tokens"),
        (3, "delay_s"),
    ]
    assert table.num_requests == 1
    assert table.runs is not None
    assert table.runs.ids.tolist() == [3, 4]
    assert table.after is not None
    assert table.after.tolist() == [-1]


def test_a_file_of_bad_rows_only_gives_no_row(tmp_path: Path) -> None:
    path = edited(written(tmp_path, FULL), {"prompt_tokens": [0, 0, 0]})
    assert ParquetTrace(path).read(FaultFinding(path)).num_requests == 0


def test_sort_orders_rows_and_what_refers_to_them(tmp_path: Path) -> None:
    path = edited(
        written(tmp_path, FULL),
        {"arrival_s": [5.0, 6.0, 1.0], "after": [2, 0, -1], "parent_id": [-1, 0, -1]},
    )
    assert refusal(path).why.startswith("after 2: must be -1 or an earlier row")
    table = ParquetTrace(path, sort=True).load(0)
    assert table.arrival_s.tolist() == [1.0, 5.0, 6.0]
    assert table.prompt_tokens.tolist() == [4, 5, 9]
    assert table.after is not None
    assert table.after.tolist() == [-1, 0, 1]
    assert table.parent_id is not None
    assert table.parent_id.tolist() == [-1, -1, 1]


BAD_HEADERS: dict[str, tuple[dict[str, Any], str]] = {
    "later": ({"version": 2}, "has version 2, this reader knows up to 1"),
    "no version": ({"version": None}, "has no version"),
    "more keys": ({"x": 1}, "must have exactly num_ids, block_tokens"),
    "blocks": ({"block_tokens": 0}, "has block_tokens 0, must be null or an integer >= 1"),
    "users": ({"concurrency": True}, "has concurrency True, must be null or an integer >= 1"),
    "names": ({"names": {"tenant": ["x", "x"]}}, "names that are not lists of distinct labels"),
    "provenance": ({"provenance": []}, "has a provenance that is no object"),
    "ids": ({"num_ids": 3}, "column run_ids has more values than its header says"),
    "more ids": ({"num_ids": 5}, "column run_ids has fewer values than its header says"),
    "no ids": ({"num_ids": None}, "unknown column 'run_ids'"),
    "untokened": ({"block_tokens": 5}, "unknown column 'run_tokens'"),
    "unnamed": ({"names": {"slo_class": []}}, "unknown column 'tenant'"),
}


@pytest.mark.parametrize("case", BAD_HEADERS)
def test_an_edited_header_is_refused(tmp_path: Path, case: str) -> None:
    header, why = BAD_HEADERS[case]
    assert why in refusal(edited(written(tmp_path, FULL), header=header)).why


def test_empty_lists_do_not_count_as_values(tmp_path: Path) -> None:
    """The file's own count of values has one for each of them."""
    error = refusal(edited(written(tmp_path, BLOCKS), header={"num_ids": 6}))
    assert error.why == "column run_ids has fewer values than its header says"


def test_too_many_blocks_for_the_prompt_are_refused(tmp_path: Path) -> None:
    error = refusal(edited(written(tmp_path, BLOCKS), {"prompt_tokens": [4, 1, 40]}))
    assert error.line == 1
    assert error.why == "2 run_ids: must be at most one per started 4 tokens of the prompt"


def test_output_runs_without_token_counts_are_refused(tmp_path: Path) -> None:
    path = edited(written(tmp_path, BLOCKS), {"output_run": pa.array([-1, 5, -1])})
    error = refusal(path)
    assert (error.line, error.why) == (
        2,
        "output_run 5: must be -1 where runs have no token counts",
    )


BAD_SCHEMAS: dict[str, tuple[Callable[[Path], Path], str]] = {
    "missing": (lambda path: edited(path, drop="prompt_tokens"), "column prompt_tokens is missing"),
    "list missing": (lambda path: edited(path, drop="run_tokens"), "column run_tokens is missing"),
    "label missing": (lambda path: edited(path, drop="tenant"), "column tenant is missing"),
    "narrow": (
        lambda path: edited(path, {"turn": pa.array([0, 1, 0], pa.int32())}),
        "column turn is of type int32: must be int64",
    ),
    "text": (
        lambda path: edited(path, {"arrival_s": pa.array(["0", "1", "2"])}),
        "column arrival_s is of type string: must be double",
    ),
    "flat": (
        lambda path: edited(path, {"run_ids": pa.array([0, 1, 2])}),
        "column run_ids is of type int64: must be list of int32 or int64",
    ),
    "unknown": (
        lambda path: edited(path, {"prio": pa.array([0, 1, 2])}),
        "unknown column 'prio'; allowed: arrival_s, delay_s, prompt_tokens",
    ),
}


@pytest.mark.parametrize("case", BAD_SCHEMAS)
def test_a_missing_or_mistyped_column_is_refused(tmp_path: Path, case: str) -> None:
    edit, why = BAD_SCHEMAS[case]
    assert why in refusal(edit(written(tmp_path, FULL))).why


def test_a_table_without_rows_is_refused(tmp_path: Path) -> None:
    error = refusal(written(tmp_path, PLAIN.slice(0, 0)))
    assert (error.line, error.why) == (0, "is empty, must have at least one row")


def test_files_that_are_no_parquet_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    assert refusal(path).why == "no such file"
    assert refusal(tmp_path).why == "is a directory, must be a file"
    path.write_text("arrival_s,prompt_tokens\n")
    assert "cannot be read as parquet" in refusal(path).why


def test_cut_files_and_changed_bytes_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, FULL)
    whole = path.read_bytes()
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        assert "cannot be read as parquet" in refusal(path).why
    for place in range(40, 700, 13):  # in the pages, which carry checksums
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            ParquetTrace(path).load(0)
        except TraceFormatError:
            continue
        raise AssertionError(f"byte {place} was changed unnoticed")


@pytest.mark.parametrize(
    "options",
    [
        {"time_unit": "ms"},
        {"time_origin": "zero"},
        {"columns": {"arrival_s": "a", "prompt_tokens": "b", "output_tokens": "c"}},
    ],
)
def test_options_for_other_files_are_refused(tmp_path: Path, options: Any) -> None:
    with pytest.raises(ConfigError, match=r"has no effect: .* says itself what it is"):
        ParquetTrace(written(tmp_path, FULL), **options).load(0)
