"""What a comparison says of why a result is what it is: L2, bytes, attention, ranges left."""

from pathlib import Path

import pytest

from experiments.compare.command import run_command
from tests.job_directories import write_job

OUTSIDE = {"flag": "outside_fitted_range", "is_minor": False, "share_ratio": 0.2}
FLAGS = [
    {**OUTSIDE, "kernel": "gemm", "text": "gemm went too far"},
    {**OUTSIDE, "kernel": "moe", "text": "moe went too far"},
    {**OUTSIDE, "kernel": "small_ops", "is_minor": True, "text": "small_ops did so once"},
]
METRICS = {
    "ttft_mean_s": 0.1,
    "l2_hit_ratio": 0.25,
    "output_token_hbm_bytes": 1.5e9,
    "gpu_attention_decode_ratio": 0.21,
    "gpu_attention_prefill_ratio": 0.13,
    "gpu_idle_ratio": 0.4,
}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for number, routing in enumerate(("round_robin", "jsq")):
        write_job(
            tmp_path / "sweep" / str(number),
            f"routing={routing}",
            metrics=METRICS,
            flags=FLAGS if number else FLAGS[:1],
        )
    return tmp_path / "sweep"


def test_l2_bytes_and_both_kinds_of_attention_are_columns(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command([str(runs)]) == 0
    out = capsys.readouterr().out
    for heading in ("L2 hits", "HBM traffic", "attention, decode", "attention, prefill"):
        assert heading in out
    assert "(per output token)" in out
    assert out.count("(of GPU time)") == 2
    for value in ("25.0 %", "1.50 GB", "21.0 %", "13.0 %"):
        assert value in out
    assert "idle" not in out


def test_idle_time_is_a_column_on_request(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command([str(runs), "--metric", "gpu"]) == 0
    out = capsys.readouterr().out
    assert "idle" in out
    assert "40.0 %" in out


def test_each_kernel_outside_its_range_has_a_note_in_table_and_report(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "report.html"
    assert run_command([str(runs), "--html", str(page)]) == 0
    for text in (capsys.readouterr().out, page.read_text()):
        assert "flag outside_fitted_range in all runs: gemm went too far" in text
        assert "flag outside_fitted_range in 1 of 2 runs: moe went too far" in text
        assert "small_ops" not in text
