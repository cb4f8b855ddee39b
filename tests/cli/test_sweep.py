"""Sweeps: one directory per job; a job that cannot run does not stop the others."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import TINY, Flocksim


def results(directory: Path) -> list[dict[str, Any]]:
    found = sorted(directory.glob("*/result.json"), key=lambda path: int(path.parent.name))
    return [json.loads(path.read_text()) for path in found]


def test_a_sweep_runs_every_combination(flocksim: Flocksim) -> None:
    run = flocksim("-m", *TINY, "routing=random,jsq", "seed=0,1")
    assert run.code == 0
    found = [(r["config"]["choices"]["routing"], r["seed"]) for r in results(run.directory)]
    assert found == [("random", 0), ("random", 1), ("jsq", 0), ("jsq", 1)]
    assert len(run.out.splitlines()) == 4


def test_a_job_of_a_sweep_equals_the_job_alone(flocksim: Flocksim, tmp_path: Path) -> None:
    sweep = flocksim("-m", *TINY, "routing=random,jsq", directory=tmp_path / "sweep")
    alone = flocksim(*TINY, "routing=jsq", directory=tmp_path / "alone")
    swept = (sweep.directory / "1" / "result.json").read_bytes()
    assert swept == (alone.directory / "result.json").read_bytes()


def test_an_infeasible_job_is_written_down_and_the_others_go_on(flocksim: Flocksim) -> None:
    run = flocksim("-m", *TINY, "model=llama2_70b,llama3_8b")
    assert run.code == 2
    infeasible, done = results(run.directory)
    assert (infeasible["status"], done["status"]) == ("infeasible", "ok")
    assert "tensor_parallel=2 would fit" in infeasible["error"]
    assert infeasible["metrics"] is None
    assert run.error_line.startswith("flocksim: error: #0 ")


def test_an_infeasible_job_leaves_no_files_of_an_earlier_one(flocksim: Flocksim) -> None:
    flocksim("-m", *TINY, "seed=0")
    run = flocksim("-m", *TINY, "seed=-1")
    assert [path.name for path in (run.directory / "0").iterdir()] == ["result.json"]


def test_a_bad_value_is_infeasible_too(flocksim: Flocksim) -> None:
    run = flocksim("-m", *TINY, "cluster.num_instances=0,1,two")
    assert run.code == 2
    assert [r["status"] for r in results(run.directory)] == ["infeasible", "ok", "infeasible"]


def test_a_defect_in_a_sweep_is_written_down_with_its_traceback(
    flocksim: Flocksim, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr("experiments.job.simulate", fail)
    run = flocksim("-m", *TINY, "seed=0,1")
    assert run.code == 1
    assert [r["status"] for r in results(run.directory)] == ["failed", "failed"]
    assert "Traceback" in run.err


def test_overrides_may_stand_on_both_sides_of_the_flag(flocksim: Flocksim) -> None:
    run = flocksim("seed=0,1", "-m", *TINY)
    assert run.code == 0
    assert [r["seed"] for r in results(run.directory)] == [0, 1]


def test_an_unknown_option_stops_the_sweep_before_it_starts(flocksim: Flocksim) -> None:
    run = flocksim("-m", *TINY, "routing=random,nope")
    assert run.code == 2
    assert "routing=nope" in run.error_line
    assert results(run.directory) == []
