"""The file of a table: what it holds, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hwmodels.tables.axes import TABLED_KERNELS
from hwmodels.tables.device_table import load_table
from sim.errors import ConfigError
from tests.unit.hwmodels.tables.toy_tables import BETTER, GRIDS, points, table_of, uneven

TABLE = table_of(*(points(kernel, uneven, BETTER) for kernel in GRIDS))


def test_a_table_reads_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "mine.table.json"
    path.write_text(TABLE.to_text())
    found = load_table(path)
    assert found.to_text() == TABLE.to_text()
    assert (found.device, found.date, found.compared_with) == ("mine", "2026-01-02", "2026-01-01")
    assert list(found.kernels) == list(GRIDS)
    for kernel, read in found.kernels.items():
        assert read.heldout == BETTER
        assert read.time_s.tolist() == TABLE.kernels[kernel].time_s.tolist()
        for name, column in read.columns.items():
            assert np.array_equal(column, TABLE.kernels[kernel].columns[name])


def test_a_file_names_every_kernel(tmp_path: Path) -> None:
    record = json.loads(TABLE.to_text())
    assert list(record["kernels"]) == list(TABLED_KERNELS)
    assert record["kernels"]["nccl"] is None


def test_coverage_gives_the_range_of_every_argument() -> None:
    assert TABLE.coverage()["decode_attention"] == {
        "batch_size": (1, 16),
        "context_tokens": (128, 2048),
        "num_heads": (32, 32),
        "num_kv_heads": (8, 8),
    }


def gemm(record: Any) -> Any:
    return record["kernels"]["gemm"]


MISTAKES: list[tuple[Callable[[Any], object], str]] = [
    (lambda r: r.update(table=2), "table must be 1 (the layout), found 2"),
    (lambda r: r.update(extra=1), "unknown key extra"),
    (lambda r: r.pop("inputs"), "missing key inputs"),
    (lambda r: r.update(date="today"), "date must be YYYY-MM-DD, found 'today'"),
    (lambda r: r["kernels"].pop("moe"), "kernels: missing key moe"),
    (lambda r: r["kernels"].update(attention=None), "unknown key attention"),
    (lambda r: gemm(r).update(note="x"), "gemm: unknown key note"),
    (lambda r: gemm(r).update(source=" "), "gemm: source: must be a text"),
    (lambda r: gemm(r)["columns"].pop("k"), "gemm: columns: missing key k"),
    (lambda r: gemm(r)["columns"]["m"].pop(), "must be equally long, found m 17, n 18, k 18"),
    (lambda r: gemm(r)["columns"].update(m=7), "columns: m: must be a list of numbers, found 7"),
    (lambda r: gemm(r)["columns"]["m"].__setitem__(3, "1"), "m: must be numbers, found '1'"),
    (lambda r: gemm(r)["columns"]["m"].__setitem__(3, 0), "gemm: columns: m 0.0 is not allowed"),
    (lambda r: gemm(r)["columns"]["m"].__setitem__(3, 1.5), "columns: m 1.5 is not allowed"),
    (lambda r: gemm(r)["time_s"].__setitem__(3, 0.0), "gemm: time_s 0.0 is not allowed"),
    (lambda r: gemm(r)["time_s"].__setitem__(3, 5e-10), "time_s 5e-10 is not allowed: must be"),
    (lambda r: gemm(r)["time_s"].__setitem__(3, 11.0), "must be from 1e-09 to 10 s"),
    (lambda r: gemm(r)["time_s"].__setitem__(3, 1e300), "numbers below 1e+300 in size, found 1e"),
    (lambda r: r.update(kernels=dict.fromkeys(TABLED_KERNELS)), "kernels: all are null"),
    (lambda r: gemm(r)["time_s"].__setitem__(3, float("nan")), "time_s: must be numbers"),
    (lambda r: gemm(r)["time_s"].__setitem__(3, 10**400), "time_s: must be numbers"),
    (
        lambda r: gemm(r)["columns"]["k"].__setitem__(1, 1024),
        "gemm: the point m=1 n=1024 k=1024 appears twice",
    ),
    (
        lambda r: r["kernels"]["decode_attention"]["columns"]["num_heads"].__setitem__(0, 4),
        "num_kv_heads above num_heads: 8.0 is not allowed",
    ),
    (
        lambda r: r["kernels"]["decode_attention"]["columns"]["batch_size"].__setitem__(0, -1),
        "batch_size -1.0 is not allowed",
    ),
    (lambda r: gemm(r)["heldout"].update(num_rows=1.5), "heldout: num_rows: must be a number"),
    (lambda r: gemm(r)["heldout"].pop("form_mape"), "heldout: missing key form_mape"),
    (lambda r: gemm(r).update(time_s=[], columns={"m": [], "n": [], "k": []}), "at least one"),
]


@pytest.mark.parametrize(("change", "line"), MISTAKES)
def test_a_mistake_in_a_table_is_one_line(
    tmp_path: Path, change: Callable[[Any], object], line: str
) -> None:
    record = json.loads(TABLE.to_text())
    change(record)
    path = tmp_path / "mine.table.json"
    path.write_text(json.dumps(record))
    with pytest.raises(ConfigError) as error:
        load_table(path)
    assert line in str(error.value)
    assert str(error.value).startswith(f"{path}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00"])
def test_a_file_that_is_no_table_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.table.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="mine"):
        load_table(path)
    with pytest.raises(ConfigError, match="cannot read the file"):
        load_table(tmp_path / "absent.json")
