"""Rows as columns, and what makes a file unusable."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hwmodels.fitting.rows_file import columns_of, is_choice, is_rows_file, read_rows_file
from hwmodels.microbench.cases import CopyCase, GemmCase, SharedPrefixCase, StreamCase
from hwmodels.microbench.row_format import Failure
from hwmodels.microbench.rows import RowsWriter
from hwmodels.synthetic_device import SyntheticDevice
from sim.errors import ConfigError
from tests.unit.hwmodels.rows.measured import DATE, HIDDEN, SPEC, header_of, written

READ = StreamCase(op="read", data_set_bytes=2**23)
TRIAD = StreamCase(op="triad", data_set_bytes=2**24)


def test_texts_and_switches_become_numbers() -> None:
    columns = columns_of([READ, TRIAD])
    assert columns["data_set_bytes"].tolist() == [2**23, 2**24]
    assert is_choice(columns, "op", "triad").tolist() == [False, True]
    copy = CopyCase(direction="d2h", num_bytes=10, pinned=True)
    assert columns_of([copy])["pinned"].tolist() == [1.0]
    assert columns_of([]) == {}


def test_each_benchmark_has_its_rows_and_failures(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    gemm = GemmCase(m=1, n=1024, k=1024, impl="library")
    written(path, [READ, gemm, TRIAD])
    device = SyntheticDevice(spec=SPEC, models=HIDDEN)
    writer = RowsWriter(path, header_of(device))
    writer.write(Failure(case=GemmCase(m=2, n=1024, k=1024, impl="triton"), why="too slow"))
    file = read_rows_file(path)
    assert {name: rows.num_rows for name, rows in file.tables.items()} == {"stream": 2, "gemm": 1}
    assert file.num_failures == {"gemm": 1}
    assert file.tables["gemm"].time_s == [device.true_s(gemm)]
    assert file.tables["gemm"].source == f"microbenchmarks on synthetic a100_sxm_80gb, {DATE}"
    assert [entry.num_rows for entry in file.tables["gemm"].left_out] == [1]
    assert file.rows_of("launch") is None


def test_a_rows_file_is_told_from_a_folder(tmp_path: Path) -> None:
    assert is_rows_file(Path("missing.jsonl"))
    assert not is_rows_file(tmp_path)
    assert not is_rows_file(tmp_path / "missing")


def _changed(change: Callable[[dict[str, Any]], object]) -> Callable[[list[str]], list[str]]:
    def edit(lines: list[str]) -> list[str]:
        header = json.loads(lines[0])
        change(header)
        return [json.dumps(header), *lines[1:]]

    return edit


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        (lambda lines: lines[:1], "holds no measured row"),
        (lambda lines: [], "holds no header"),
        (lambda lines: [*lines, lines[1]], ":3: .* was measured before"),
        (lambda lines: [*lines, "{"], ":3: not valid JSON"),
        (lambda lines: [lines[0], lines[1].replace("stream", "stroem")], ":2: unknown case"),
        (_changed(lambda header: header.update(date="yesterday")), ":1: date must be YYYY-MM-DD"),
        (_changed(lambda header: header.update(date="20260102")), ":1: date must be YYYY-MM-DD"),
        (_changed(lambda header: header.pop("device")), ":1: missing key device"),
    ],
)
def test_a_file_that_is_broken_is_refused_in_one_line(
    tmp_path: Path, edit: Callable[[list[str]], list[str]], line: str
) -> None:
    path = tmp_path / "rows.jsonl"
    written(path, [READ])
    lines = edit(path.read_text().splitlines())
    path.write_text("".join(f"{text}\n" for text in lines))
    with pytest.raises(ConfigError, match=line) as caught:
        read_rows_file(path)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no\.jsonl: No such file"):
        read_rows_file(tmp_path / "no.jsonl")


def test_a_last_line_cut_short_holds_no_row(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    case = SharedPrefixCase(
        num_heads=32,
        num_kv_heads=8,
        groups=1,
        members=2,
        prefix_tokens=512,
        suffix_tokens=128,
        member_order="contiguous",
        cache="warm",
    )
    written(path, [READ, case])
    path.write_text(path.read_text()[:-20])
    assert list(read_rows_file(path).tables) == ["stream"]
