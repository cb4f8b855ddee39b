"""`make demo`."""

from pathlib import Path

import pytest

from experiments.demo import FIGURES, RATES_PER_S, ROUTERS, main
from tests.conftest import TINY


def test_the_demo_compares_four_routers_at_three_rates(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    small = [item for item in TINY if "rate_per_s" not in item]
    assert main(small, tmp_path) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    rows = [words for words in lines if set(words) & set(ROUTERS) and "stable" in words]
    assert [words[0] for words in rows if words[0].isdigit()] == [str(r) for r in RATES_PER_S]
    routers = [next(word for word in words if word in ROUTERS) for words in rows]
    assert routers == list(ROUTERS) * len(RATES_PER_S)
    assert all(words[-1] == "-" for words in rows[:: len(ROUTERS)])
    figures = [tmp_path / f"{name}.png" for name in FIGURES]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in figures)


def test_started_again_it_simulates_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = [item for item in TINY if "rate_per_s" not in item]
    assert main(small, tmp_path) == 0
    first = capsys.readouterr().out
    times = [path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("result.json"))]
    assert main(small, tmp_path) == 0
    assert capsys.readouterr().out == first
    assert [p.stat().st_mtime_ns for p in sorted(tmp_path.rglob("result.json"))] == times


def test_the_demo_explains_a_bad_override(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["engine.nope=1"], tmp_path) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("flocksim: error: unknown key of engine: nope")


def test_a_run_that_cannot_be_ends_the_demo_with_its_reason(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["model=llama2_70b"], tmp_path) == 2
    assert "tensor_parallel=2 would fit" in capsys.readouterr().err
