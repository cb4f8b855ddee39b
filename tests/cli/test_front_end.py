"""The front end from the command line."""

import json
from pathlib import Path

import pytest

from tests.conftest import TINY, Flocksim


def test_a_run_behind_a_front_end(flocksim: Flocksim) -> None:
    run = flocksim(*TINY, "frontend.enabled=true", "check=true")
    assert (run.code, run.err) == (0, "")
    assert "front end: 15.6 ms + 800 us per request" in run.out
    assert "TTFT = front end in " in run.out
    metrics = json.loads((run.directory / "result.json").read_text())["metrics"]
    assert metrics["frontend_in_mean_s"] > 0.0164
    assert metrics["frontend_out_mean_s"] >= 50e-6
    assert 0 < metrics["frontend_busy_ratio"] < 1


def test_two_runs_write_the_same_bytes(flocksim: Flocksim, tmp_path: Path) -> None:
    for name in ("a", "b"):
        flocksim(*TINY, "frontend.enabled=true", directory=tmp_path / name)
    for name in ("result.json", "requests.parquet", "distributions.parquet"):
        first, second = (tmp_path / folder / name for folder in ("a", "b"))
        assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (("frontend.request_s=0.01",), "frontend.request_s=0.01 has no effect when frontend.enab"),
        (("frontend.enabled=1",), "frontend.enabled=1: must be true or false"),
        (("frontend.enabled=true", "frontend.token_s=-1"), "frontend.token_s=-1: must be a finite"),
        (("frontend.enable=true",), "unknown key of frontend: enable (did you mean enabled?)"),
    ],
)
def test_a_mistake_is_one_line(flocksim: Flocksim, overrides: tuple[str, ...], line: str) -> None:
    run = flocksim(*TINY, *overrides)
    assert run.code == 2
    assert line in run.error_line
