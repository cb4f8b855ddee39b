"""Sweeps: one directory per job; a job that cannot run does not stop the others."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import TINY, Flocksim

HERE = "hydra.launcher.n_jobs=1"
"""All jobs in this process."""


def results(directory: Path) -> list[dict[str, Any]]:
    found = sorted(directory.glob("*/result.json"), key=lambda path: int(path.parent.name))
    return [json.loads(path.read_text()) for path in found]


def rows(directory: Path) -> list[dict[str, str]]:
    with (directory / "sweep.csv").open() as file:
        return list(csv.DictReader(file))


def files(directory: Path) -> dict[str, bytes]:
    """All that is the same in every run of the same sweep."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name not in ("run.json", "multirun.yaml")
    }


def test_a_sweep_runs_every_combination(flocksim: Flocksim) -> None:
    run = flocksim("-m", *TINY, "routing=random,jsq", "seed=0,1", HERE)
    assert run.code == 0
    found = [(r["config"]["choices"]["routing"], r["seed"]) for r in results(run.directory)]
    assert found == [("random", 0), ("random", 1), ("jsq", 0), ("jsq", 1)]
    lines = run.out.splitlines()
    assert [line.split(" ")[0] for line in lines[2:6]] == ["#0", "#1", "#2", "#3"]


def test_a_job_of_a_sweep_equals_the_job_alone(flocksim: Flocksim, tmp_path: Path) -> None:
    sweep = flocksim("-m", *TINY, "routing=random,jsq", HERE, directory=tmp_path / "sweep")
    alone = flocksim(*TINY, "routing=jsq", directory=tmp_path / "alone")
    swept = (sweep.directory / "1" / "result.json").read_bytes()
    assert swept == (alone.directory / "result.json").read_bytes()


@pytest.mark.parametrize(
    "launcher",
    [
        ("hydra.launcher.n_jobs=2",),
        ("hydra/launcher=basic",),
        ("hydra/launcher=joblib", "hydra.launcher.n_jobs=1"),
    ],
)
def test_every_launcher_gives_the_same_files(
    launcher: tuple[str, ...], flocksim: Flocksim, tmp_path: Path
) -> None:
    sweep = ("-m", *TINY, "routing=random,jsq", "cluster.num_instances=0,2")
    here = flocksim(*sweep, HERE, directory=tmp_path / "here")
    other = flocksim(*sweep, *launcher, directory=tmp_path / "other")
    assert (here.code, other.code) == (2, 2)
    assert files(here.directory) == files(other.directory)
    assert here.err == other.err


def test_the_sweep_ends_with_a_table_and_a_csv_of_all_jobs(flocksim: Flocksim) -> None:
    run = flocksim("-m", *TINY, "routing=random,jsq", "seed=0,-1", HERE)
    table = run.out.splitlines()[-7:-2]
    assert run.out.splitlines()[-1] == f"compare: flocksim-compare {run.directory}"
    assert table[0].split()[:4] == ["job", "routing", "seed", "regime"]
    assert [line.split()[:4] for line in table[1:]] == [
        ["0", "random", "0", "stable"],
        ["1", "random", "-1", "infeasible"],
        ["2", "jsq", "0", "stable"],
        ["3", "jsq", "-1", "infeasible"],
    ]
    found = rows(run.directory)
    assert [row["directory"] for row in found] == ["0", "1", "2", "3"]
    assert [row["status"] for row in found] == ["ok", "infeasible", "ok", "infeasible"]
    metrics = results(run.directory)[2]["metrics"]
    assert float(found[2]["ttft_p99_s"]) == metrics["ttft_p99_s"]
    assert found[1]["ttft_p99_s"] == ""
    assert "seed=-1: must be an integer" in found[1]["error"]


def test_a_finished_job_is_not_run_again(flocksim: Flocksim) -> None:
    first = flocksim("-m", *TINY, "seed=0,1", HERE)
    before = files(first.directory)
    times = {path: path.stat().st_mtime_ns for path in first.directory.glob("*/*.parquet")}
    again = flocksim("-m", *TINY, "seed=0,1", HERE)
    assert files(again.directory) == before
    assert {path: path.stat().st_mtime_ns for path in times} == times
    assert again.out.count("its result is there") == 2
    (first.directory / "1" / "result.json").unlink()
    third = flocksim("-m", *TINY, "seed=0,1", HERE)
    assert third.out.count("its result is there") == 1
    assert files(third.directory) == before


def test_one_more_value_keeps_the_results_of_the_others(flocksim: Flocksim, tmp_path: Path) -> None:
    flocksim("-m", *TINY, "seed=1,2", HERE)
    more = flocksim("-m", *TINY, "seed=0,1,2", HERE)
    assert more.out.count("its result is there") == 2
    fresh = flocksim("-m", *TINY, "seed=0,1,2", HERE, directory=tmp_path / "fresh")
    assert files(more.directory) == files(fresh.directory)


def test_results_of_another_sweep_are_named_and_left_alone(flocksim: Flocksim) -> None:
    flocksim("-m", *TINY, "seed=0,1,2", HERE)
    run = flocksim("-m", *TINY, "seed=0", HERE)
    assert "note: of another sweep, left as they were: 1, 2" in run.out
    assert len(rows(run.directory)) == 1


def test_the_basic_launcher_skips_finished_jobs_too(flocksim: Flocksim) -> None:
    flocksim("-m", *TINY, "seed=0,1", "hydra/launcher=basic")
    again = flocksim("-m", *TINY, "seed=0,1", "hydra/launcher=basic")
    assert again.out.count("its result is there") == 2


def test_an_infeasible_job_is_written_down_and_the_others_go_on(flocksim: Flocksim) -> None:
    run = flocksim("-m", *TINY, "model=llama2_70b,llama3_8b", HERE)
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
    run = flocksim("-m", *TINY, "cluster.num_instances=0,1,two", HERE)
    assert run.code == 2
    assert [r["status"] for r in results(run.directory)] == ["infeasible", "ok", "infeasible"]


def test_a_value_that_is_not_set_is_infeasible(flocksim: Flocksim) -> None:
    run = flocksim("-m", "trace=mooncake", "seed=0")
    assert run.code == 2
    assert "trace.path is not set" in run.error_line


def test_a_defect_in_a_sweep_is_written_down_with_its_traceback(
    flocksim: Flocksim, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr("experiments.job.simulate", fail)
    run = flocksim("-m", *TINY, "seed=0,1", HERE)
    assert run.code == 1
    assert [r["status"] for r in results(run.directory)] == ["failed", "failed"]
    assert run.err.count("Traceback") == 2


def test_overrides_may_stand_on_both_sides_of_the_flag(flocksim: Flocksim) -> None:
    run = flocksim("seed=0,1", "-m", *TINY, HERE)
    assert run.code == 0
    assert [r["seed"] for r in results(run.directory)] == [0, 1]


def test_an_unknown_option_stops_the_sweep_before_it_starts(flocksim: Flocksim) -> None:
    run = flocksim("-m", *TINY, "routing=random,nope")
    assert run.code == 2
    assert "routing=nope" in run.error_line
    assert results(run.directory) == []


def test_jobs_that_would_share_a_directory_are_refused(flocksim: Flocksim) -> None:
    run = flocksim("-m", *TINY, "seed=0,1", "hydra.sweep.subdir=same")
    assert run.code == 2
    assert "jobs #0 and #1 would both write to" in run.error_line
    assert not (run.directory / "same").exists()


def test_a_subdirectory_may_be_named_after_the_job(flocksim: Flocksim) -> None:
    run = flocksim("-m", *TINY, "seed=0,1", "hydra.sweep.subdir=seed/${seed}", HERE)
    assert run.code == 0
    assert [row["directory"] for row in rows(run.directory)] == ["seed/0", "seed/1"]
    assert (run.directory / "seed" / "1" / "result.json").exists()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("hydra.launcher.n_jobs=0", "hydra.launcher.n_jobs=0: must be an integer >= 1"),
        ("hydra.launcher.n_jobs=many", "hydra.launcher.n_jobs='many': must be an integer >= 1"),
        ("hydra.job.chdir=true", "hydra.job.chdir needs another launcher"),
        ("+hydra.job.env_set.A=b", "hydra.job.env_set needs another launcher"),
        ("hydra.launcher.no_such=1", "unknown key hydra.launcher.no_such"),
    ],
)
def test_what_the_launcher_does_not_follow_is_refused(
    given: str, told: str, flocksim: Flocksim
) -> None:
    run = flocksim("-m", *TINY, "seed=0,1", given)
    assert run.code == 2
    assert told in run.error_line


def test_a_sweep_with_batches_is_one_sweep(flocksim: Flocksim) -> None:
    run = flocksim("-m", *TINY, "seed=0,1,2", "hydra.sweeper.max_batch_size=2", HERE)
    assert run.code == 0
    assert [row["seed"] for row in rows(run.directory)] == ["0", "1", "2"]
