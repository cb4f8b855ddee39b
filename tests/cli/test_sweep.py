"""Sweeps: one directory per job; a job that cannot run does not stop the others."""

import csv
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from experiments.cli import run_command
from experiments.sweep import run_sweep
from experiments.sweep.spelling import override_as_typed
from sim.errors import ConfigError
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


def test_a_job_whose_policy_writes_a_file_is_run_again(flocksim: Flocksim, tmp_path: Path) -> None:
    table = tmp_path / "table.json"
    job = [*TINY, "trace.flood=true", "cluster.num_instances=1", "batching=feather", "seed=0,1"]
    job += [f"batching.state_out={table}"]
    flocksim("-m", *job, HERE)
    table.unlink()
    for launcher in (HERE, "hydra/launcher=basic"):
        again = flocksim("-m", *job, launcher)
        assert "its result is there" not in again.out
        assert table.is_file()
        table.unlink()


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


def test_another_sweep_in_the_same_directory_is_refused_before_it_writes(
    flocksim: Flocksim,
) -> None:
    first = flocksim("-m", *TINY, "routing=random,round_robin", HERE)
    before = files(first.directory)
    run = flocksim("-m", *TINY, "routing=jsq", "seed=0,1,2", HERE)
    assert (run.code, run.out) == (2, "")
    assert run.error_line == (
        f"flocksim: error: {first.directory}/0 holds a result of another sweep "
        f"({' '.join(TINY)} routing=random), which #0 {' '.join(TINY)} routing=jsq seed=0 would "
        "overwrite: give another hydra.sweep.dir"
    )
    assert files(run.directory) == before
    with pytest.raises(ConfigError, match="0 holds a result of another sweep"):
        run_sweep([*TINY, "routing=jsq", "seed=0,1,2"], run.directory, workers=1)
    assert files(run.directory) == before


def test_hydras_own_launcher_keeps_results_of_another_sweep_too(flocksim: Flocksim) -> None:
    basic = "hydra/launcher=basic"
    first = flocksim("-m", *TINY, "routing=random", basic)
    before = (first.directory / "0" / "result.json").read_bytes()
    run = flocksim("-m", *TINY, "routing=jsq", "seed=0,1", basic)
    assert run.code == 2
    assert "holds a result of another sweep" in run.err
    assert (run.directory / "0" / "result.json").read_bytes() == before
    assert (run.directory / "1" / "result.json").is_file()


def test_one_result_of_another_sweep_among_ours_is_enough(flocksim: Flocksim) -> None:
    first = flocksim("-m", *TINY, "seed=0,1,2", HERE)
    run = flocksim("-m", *TINY, "seed=0,1,3", HERE)
    assert run.code == 2
    assert f"{first.directory}/2 holds a result of another sweep" in run.error_line
    (first.directory / "2" / "run.json").unlink()
    run = flocksim("-m", *TINY, "seed=0,1,3", HERE)
    assert "another sweep (without run.json), which #2 " in run.error_line


def test_what_did_not_finish_may_be_overwritten(flocksim: Flocksim) -> None:
    first = flocksim("-m", *TINY, "seed=-1,0", HERE)
    assert first.code == 2
    run = flocksim("-m", *TINY, "seed=1", HERE)
    assert run.code == 0


def test_a_sweep_runs_again_where_its_trace_changed(
    flocksim: Flocksim, mooncake_file: Path
) -> None:
    sweep = ("trace=mooncake", f"trace.path={mooncake_file}", "routing=random,jsq")
    old = [r["job_key"] for r in results(flocksim("-m", *sweep, HERE).directory)]
    mooncake_file.write_text(mooncake_file.read_text().replace("300", "301"))
    run = flocksim("-m", *reversed(sweep), HERE)
    assert run.code == 0
    new = [r["job_key"] for r in results(run.directory)]
    assert len({*old, *new}) == 4


@pytest.mark.parametrize("batch", [(), ("hydra.sweeper.max_batch_size=2",)])
def test_an_extended_sweep_keeps_all_results_of_the_first(
    batch: tuple[str, ...], flocksim: Flocksim, tmp_path: Path
) -> None:
    flocksim("-m", *TINY, "routing=random,jsq", "seed=1,2", HERE)
    wider = ("-m", *TINY, "routing=random,round_robin,jsq", "seed=0,1,2", HERE)
    more = flocksim(*wider, *batch)
    assert (more.code, more.err) == (0, "")
    assert more.out.count("its result is there") == 4
    fresh = flocksim(*wider, directory=tmp_path / "fresh")
    assert files(more.directory) == files(fresh.directory)


def test_another_sweep_in_a_later_batch_is_refused_before_the_first_one_runs(
    flocksim: Flocksim,
) -> None:
    flocksim("-m", *TINY, "seed=0,1,2", HERE)
    run = flocksim("-m", *TINY, "seed=0,1,3", "hydra.sweeper.max_batch_size=1", HERE)
    assert (run.code, run.out) == (2, "")
    assert "/2 holds a result of another sweep" in run.error_line


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


def test_an_infeasible_job_leaves_no_files_of_an_earlier_one(
    flocksim: Flocksim, mooncake_file: Path
) -> None:
    sweep = ("-m", "trace=mooncake", f"trace.path={mooncake_file}", HERE)
    assert flocksim(*sweep).code == 0
    mooncake_file.write_text("no trace any more")
    run = flocksim(*sweep)
    assert run.code == 2
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


def test_a_mistake_beside_a_defect_decides_the_exit_code(
    flocksim: Flocksim, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr("experiments.job.simulate", fail)
    run = flocksim("-m", *TINY, "seed=0,-1", HERE)
    assert [r["status"] for r in results(run.directory)] == ["failed", "infeasible"]
    assert run.code == 2


def test_overrides_may_stand_on_both_sides_of_the_flag(flocksim: Flocksim) -> None:
    run = flocksim("seed=0,1", "-m", *TINY, HERE)
    assert run.code == 0
    assert [r["seed"] for r in results(run.directory)] == [0, 1]


def test_an_unknown_option_stops_the_sweep_before_it_starts(flocksim: Flocksim) -> None:
    run = flocksim("-m", *TINY, "routing=random,nope")
    assert run.code == 2
    assert "routing=nope" in run.error_line
    assert results(run.directory) == []


def test_the_commands_it_names_can_be_typed(flocksim: Flocksim, tmp_path: Path) -> None:
    place = tmp_path / "it's a d\u00edr"
    sweep = ("-m", *TINY, "seed=0,1", HERE)
    run_command([*sweep, override_as_typed_alone(place)])
    out = flocksim(*sweep, directory=tmp_path / "other").out
    assert (place / "1" / "result.json").is_file()
    assert f"with hydra.sweep.dir={tmp_path}/other goes on" in out


def override_as_typed_alone(place: Path) -> str:
    """What the shell makes of the override that a sweep names."""
    (word,) = shlex.split(override_as_typed("hydra.sweep.dir", place))
    return word


def test_a_kind_of_sweep_that_has_no_values_is_named(flocksim: Flocksim) -> None:
    run = flocksim("-m", *TINY, "trace.rate_scale=interval(0,1)")
    assert (run.code, run.directory.exists()) == (2, False)
    assert run.error_line.startswith("flocksim: error: trace.rate_scale=interval(0,1): a sweep ")


def test_a_file_in_place_of_the_directory_is_named(flocksim: Flocksim, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    run = flocksim("-m", *TINY, "seed=0,1")
    assert run.code == 2
    assert run.error_line.endswith("out: hydra.sweep.dir must be a directory, but it is a file")


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
