"""Rows files: whole lines, one clear line for what is broken, nothing lost."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hwmodels.microbench.cases import GemmCase, StreamCase
from hwmodels.microbench.errors import RowsError
from hwmodels.microbench.row_format import VERSION_KEYS, Failure, Header, Measurement, Row
from hwmodels.microbench.rows import RowsWriter, read_rows
from tests.unit.hwmodels.microbench.stand_in import A100

HEADER = Header(
    device=A100,
    versions=dict.fromkeys(VERSION_KEYS, "1.2"),
    date="2026-01-01",
    plan="a100",
    seed=0,
)
READ = StreamCase(op="read", data_set_bytes=4096)
PRODUCT = GemmCase(m=1, n=2, k=3, impl="library")
TIMES = Measurement(p20_s=1e-5, p50_s=2e-5, p80_s=3e-5, repeats=9, max_error=0.1, tolerance=0.2)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of one row and one failure."""
    path = tmp_path / "deep" / "rows.jsonl"
    writer = RowsWriter(path, HEADER)
    writer.write(Row(case=READ, measurement=TIMES, took_s=0.5))
    writer.write(Failure(case=PRODUCT, why="no memory"))
    return path


def test_rows_come_back_as_they_were_written(path: Path) -> None:
    found = read_rows(path)
    assert found.header == HEADER
    assert found.rows == {READ.id: Row(case=READ, measurement=TIMES, took_s=0.5)}
    assert found.failures == {PRODUCT.id: Failure(case=PRODUCT, why="no memory")}
    assert not found.is_cut_short


def test_a_later_row_replaces_a_failure(path: Path) -> None:
    RowsWriter(path, HEADER).write(Row(case=PRODUCT, measurement=TIMES, took_s=0.5))
    found = read_rows(path)
    assert set(found.rows) == {READ.id, PRODUCT.id}
    assert not found.failures


def test_a_line_cut_short_is_dropped_and_written_anew(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"kind": "row", "case"')
    assert read_rows(path).is_cut_short
    writer = RowsWriter(path, HEADER)
    assert path.read_bytes() == whole
    assert set(writer.before.rows) == {READ.id}


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"kind": "column"}, 'kind must be "row" or "failure"'),
        ({"case": "sort"}, "unknown case 'sort'"),
        ({"id": "stream:op=triad"}, "does not say the parameters: stream:data_set_bytes=4096"),
        ({"params": {"op": "read"}}, "missing parameter data_set_bytes"),
        ({"params": 3}, "params must be a JSON object, found int"),
        ({"p50_s": 9.0}, "p20_s, p50_s, p80_s must not fall"),
        ({"p20_s": 0}, "p20_s must be above 0"),
        ({"p20_s": "fast"}, "p20_s must be a number of at least 0, found 'fast'"),
        ({"p20_s": float("nan")}, "p20_s must be a number of at least 0, found nan"),
        ({"repeats": 0}, "repeats must be a whole number of at least 1"),
        ({"bytes": 1}, "bytes of stream:data_set_bytes=4096,op=read are 4096, found 1"),
        ({"extra": 1}, "unknown key 'extra'"),
        ({"took_s": None}, "took_s must be a number"),
    ],
)
def test_a_wrong_row_is_told_with_its_line(
    path: Path, change: dict[str, object], line: str
) -> None:
    lines = path.read_text().splitlines()
    lines[1] = json.dumps({**json.loads(lines[1]), **change})
    path.write_text("\n".join(lines) + "\n")
    before = path.read_bytes()
    with pytest.raises(RowsError, match=line) as error:
        RowsWriter(path, HEADER)
    assert str(error.value).startswith(f"{path}:2: ")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"\xff\xfe\n", ":1: not a text in UTF-8"),
        (b"{\n", ":1: not valid JSON"),
        (b"[]\n", ":1: the first line must be a JSON object, found list"),
        (b'{"kind": "row"}\n', ':1: the first line must have kind "header"'),
        (b'{"kind": "header", "schema": 2}\n', ":1: schema must be 1, found 2"),
        (b"[" * 100_000 + b"\n", ":1: not valid JSON: too deep"),
        (b'{"kind"', ": holds no header"),
    ],
)
def test_what_is_no_rows_file_is_told(tmp_path: Path, content: bytes, line: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    with pytest.raises(RowsError) as error:
        RowsWriter(path, HEADER)
    assert str(error.value).startswith(f"{path}{line}")
    assert path.read_bytes() == content


def test_a_case_measured_twice_is_told(path: Path) -> None:
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines, lines[1]]))
    with pytest.raises(RowsError, match=r"rows.jsonl:4: stream:.* was measured before"):
        read_rows(path)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (replace(HEADER, device=replace(A100, num_sms=9)), "device num_sms 9 and not 108"),
        (replace(HEADER, versions={**HEADER.versions, "driver": "2"}), "driver 2 and not 1.2"),
        (replace(HEADER, seed=3), "plan a100 seed 3 and not a100 seed 0"),
    ],
)
def test_rows_of_another_device_driver_or_plan_do_not_mix(
    path: Path, other: Header, why: str
) -> None:
    before = path.read_bytes()
    with pytest.raises(RowsError, match=why):
        RowsWriter(path, other)
    assert path.read_bytes() == before


def test_another_day_or_python_goes_on(path: Path) -> None:
    other = replace(HEADER, date="2026-01-02", versions={**HEADER.versions, "python": "3.13"})
    assert set(RowsWriter(path, other).before.rows) == {READ.id}


def test_places_that_cannot_hold_rows_get_one_line(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for place, why in ((tmp_path, "Is a directory"), (file / "rows", "its folder is a file")):
        with pytest.raises(RowsError, match=why):
            RowsWriter(place, HEADER)


def test_an_empty_file_is_begun(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.touch()
    RowsWriter(path, HEADER)
    assert read_rows(path).header == HEADER
