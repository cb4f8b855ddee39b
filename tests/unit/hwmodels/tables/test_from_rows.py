"""Tables from microbenchmark rows: which cases count, and that a table of them prices them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hwmodels.device import load_profile
from hwmodels.microbench.cases import (
    AllReduceCase,
    Case,
    DecodeAttentionCase,
    GemmCase,
    PrefillCase,
    StreamCase,
)
from hwmodels.microbench.row_format import VERSION_KEYS
from hwmodels.microbench.rows import DeviceInfo, Header, Measurement, Row, RowsWriter
from hwmodels.tables.build import table_of_file
from hwmodels.tables.join import tabled
from sim.errors import ConfigError

A100 = load_profile("a100_sxm_80gb")
INFO = DeviceInfo(
    name="NVIDIA A100-SXM4-80GB",
    num_sms=108,
    l2_bytes=40 * 2**20,
    memory_bytes=80 * 2**30,
    compute_capability="8.0",
    num_gpus=1,
)


def rows_file(path: Path, cases: Sequence[tuple[Case, float]], info: DeviceInfo = INFO) -> Path:
    header = Header(
        device=info,
        versions=dict.fromkeys(VERSION_KEYS, "1"),
        date="2026-01-02",
        plan="generic",
        seed=0,
    )
    writer = RowsWriter(path, header)
    for case, time_s in cases:
        measured = Measurement(p20_s=time_s, p50_s=time_s, p80_s=time_s, repeats=9)
        writer.write(Row(case=case, measurement=measured, took_s=0.1))
    return path


def gemm(m: int, impl: str = "library") -> GemmCase:
    return GemmCase(m=m, n=4096, k=4096, impl=impl)  # type: ignore[arg-type]


def decode(batch: int, **others: object) -> DecodeAttentionCase:
    return DecodeAttentionCase(
        num_heads=32,
        num_kv_heads=8,
        batch=batch,
        context=4096,
        **others,  # type: ignore[arg-type]
    )


def test_the_cases_that_an_engine_would_run_become_points(tmp_path: Path) -> None:
    path = rows_file(
        tmp_path / "rows.jsonl",
        [
            (gemm(64), 5e-5),
            (gemm(512), 1e-4),
            (gemm(64, "triton"), 9e-5),
            (decode(64, splits=1), 8e-4),
            (decode(64, splits=2), 7e-4),
            (decode(64, lengths="one_long", ratio=4), 9e-4),
            (PrefillCase(num_heads=32, num_kv_heads=8, chunk_tokens=512, prefix_tokens=64), 1e-4),
            (AllReduceCase(num_bytes=2**20, num_gpus=2), 6e-5),
            (StreamCase(op="read", data_set_bytes=2**26), 5e-5),
        ],
    )
    table = table_of_file(A100, path, "2026-01-03")
    assert list(table.kernels) == ["gemm", "decode_attention", "prefill_attention", "nccl"]
    assert {name: points.num_points for name, points in table.kernels.items()} == {
        "gemm": 2,
        "decode_attention": 1,
        "prefill_attention": 1,
        "nccl": 1,
    }
    assert list(table.inputs) == ["rows.jsonl"]
    assert (table.device, table.date) == ("a100_sxm_80gb", "2026-01-03")
    kernels = tabled(A100.kernels, table)
    assert kernels.gemm is not None and kernels.decode_attention is not None
    assert kernels.prefill_attention is not None
    assert float(kernels.gemm.time_s(64, 4096, 4096)) == pytest.approx(5e-5, rel=1e-9)
    lengths_s = kernels.decode_attention.lengths_time_s([4096] * 64, 32, 8)
    assert float(lengths_s) == pytest.approx(8e-4, rel=1e-9)
    chunk_s = kernels.prefill_attention.time_s(1, 512, 64, 32, 8)
    assert float(chunk_s) == pytest.approx(1e-4, rel=1e-9)


def test_rows_of_another_gpu_or_without_such_cases_are_refused(tmp_path: Path) -> None:
    other = rows_file(tmp_path / "other.jsonl", [(gemm(64), 5e-5)], replace(INFO, num_sms=132))
    with pytest.raises(ConfigError, match="with 132 processors, profile a100_sxm_80gb has 108"):
        table_of_file(A100, other, "2026-01-03")
    stream = StreamCase(op="read", data_set_bytes=2**26)
    path = rows_file(tmp_path / "rows.jsonl", [(stream, 5e-5), (gemm(8, "triton"), 1e-5)])
    with pytest.raises(ConfigError, match="no row of a kernel that a table can hold"):
        table_of_file(A100, path, "2026-01-03")
