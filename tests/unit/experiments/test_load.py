"""Reading job directories back."""

import json
from pathlib import Path

import pandas as pd
import pytest

from experiments.results.load import (
    ResultError,
    load_runs,
    metrics_frame,
    without_copies,
)
from tests.job_directories import request_table, write_job


def test_jobs_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name in ("10", "2", "1"):
        write_job(tmp_path / "sweep" / name)
    assert [run.directory.name for run in load_runs(tmp_path)] == ["1", "2", "10"]


def test_a_directory_given_twice_is_read_once(tmp_path: Path) -> None:
    job = write_job(tmp_path / "sweep" / "0")
    assert len(load_runs([job, tmp_path, job / "result.json"])) == 1


def test_a_run_knows_its_choices_overrides_and_files(tmp_path: Path) -> None:
    table = request_table(arrival_s=[0.0, 1.0])
    (run,) = load_runs(write_job(tmp_path / "0", "routing=jsq", seed=3, requests=table))
    assert run.choices["routing"] == "jsq"
    assert run.overrides == ["routing=jsq", "seed=3"]
    assert run.requests is not None
    pd.testing.assert_frame_equal(run.requests, table)
    assert run.distributions is None


def test_a_job_that_could_not_run_keeps_its_status_and_has_no_figures(tmp_path: Path) -> None:
    write_job(tmp_path / "0")
    write_job(tmp_path / "1", status="infeasible", regime=None, error="too large")
    frame = metrics_frame(load_runs(tmp_path))
    assert frame["status"].tolist() == ["ok", "infeasible"]
    assert frame["ttft_mean_s"].tolist()[0] == 0.1
    assert frame["ttft_mean_s"].isna().tolist() == [False, True]


def test_every_replication_is_a_row(tmp_path: Path) -> None:
    parts = [
        {"replication": k, "seed": 7 + k, "regime": "stable", "metrics": {"ttft_mean_s": 0.1 * k}}
        for k in range(3)
    ]
    table = request_table(arrival_s=[0.0, 2.0, 0.0, 1.0], replication=[0, 0, 1, 1])
    frame = metrics_frame(load_runs(write_job(tmp_path, replications=parts, requests=table)))
    assert frame["replication"].tolist() == [0, 1, 2]
    assert frame["seed"].tolist() == [7, 8, 9]
    assert frame["ttft_mean_s"].tolist() == [0.0, 0.1, 0.2]
    assert frame["offered_rate_per_s"].tolist()[:2] == [1.0, 2.0]
    assert frame["offered_rate_per_s"].isna().tolist()[2]


def test_the_offered_rate_is_that_of_the_requests_that_count(tmp_path: Path) -> None:
    table = request_table(arrival_s=[0.0, 0.1, 5.0, 5.5, 6.0])
    job = write_job(tmp_path, "trace.warmup_s=5", requests=table)
    assert metrics_frame(load_runs(job))["offered_rate_per_s"].tolist() == [3.0]


def test_a_flood_has_no_offered_rate(tmp_path: Path) -> None:
    job = write_job(tmp_path, requests=request_table(arrival_s=[0.0, 0.0]))
    assert metrics_frame(load_runs(job))["offered_rate_per_s"].isna().all()


def test_directories_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    for sweep in ("a", "b"):
        write_job(tmp_path / sweep / "0", seed=ord(sweep))
    assert metrics_frame(load_runs(tmp_path))["run"].tolist() == ["a/0", "b/0"]


def test_copies_of_a_job_are_set_aside(tmp_path: Path) -> None:
    for name, seed in (("0", 0), ("1", 1), ("2", 0)):
        write_job(tmp_path / name, seed=seed)
    kept, copies = without_copies(load_runs(tmp_path))
    assert [run.directory.name for run in kept] == ["0", "1"]
    assert [run.directory.name for run in copies] == ["2"]


def test_an_interrupted_job_does_not_stand_for_the_whole_one(tmp_path: Path) -> None:
    write_job(tmp_path / "0", status="interrupted")
    write_job(tmp_path / "1")
    assert without_copies(load_runs(tmp_path))[1] == []


def test_jobs_that_could_not_run_are_no_copies(tmp_path: Path) -> None:
    for name in ("0", "1"):
        write_job(tmp_path / name, status="failed")
    assert without_copies(load_runs(tmp_path))[1] == []


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "is no JSON"),
        ("[]", "must hold an object, found list"),
        ('{"schema_version": 99}', "schema_version is 99, this flocksim reads 1"),
        ('{"schema_version": 1, "status": "odd"}', "status is 'odd', must be one of ok, "),
        ('{"schema_version": 1, "status": "ok"}', "config.choices is missing"),
    ],
)
def test_a_damaged_result_is_named(tmp_path: Path, content: str, why: str) -> None:
    path = tmp_path / "result.json"
    path.write_text(content)
    with pytest.raises(ResultError) as error:
        load_runs(tmp_path)
    assert str(error.value).startswith(f"{path}: ")
    assert why in str(error.value)


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        ({"metrics": [1]}, "metrics is [1], must be an object or null"),
        ({"metrics": None}, "status is 'ok', but metrics are missing"),
        ({"metrics": {"ttft_mean_s": "x"}}, "metrics.ttft_mean_s is 'x', must be a number or null"),
        ({"provenance": []}, "provenance is [], must be an object or null"),
        ({"seed": "x"}, "seed is 'x', must be an integer or null"),
        ({"flags": ["odd"]}, "flags[0] is 'odd', must be an object with flag and text"),
        ({"replications": {}}, "replications is {}, must be a list or null"),
        ({"replications": [3]}, "replications[0] is 3, must be an object with metrics"),
        (
            {"replications": [{"metrics": {}, "seed": 1}]},
            "replications[0].replication is None, must be an integer",
        ),
    ],
)
def test_a_value_of_the_wrong_kind_is_named(
    tmp_path: Path, damage: dict[str, object], why: str
) -> None:
    path = write_job(tmp_path) / "result.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **damage}))
    with pytest.raises(ResultError) as error:
        load_runs(tmp_path)
    assert str(error.value) == f"{path}: {why}"


def test_overrides_that_are_no_list_are_named(tmp_path: Path) -> None:
    (write_job(tmp_path) / "run.json").write_text('{"overrides": 5}')
    with pytest.raises(ResultError, match=r"run\.json: overrides is 5, must be a list"):
        load_runs(tmp_path)


def test_a_table_of_another_kind_is_named(tmp_path: Path) -> None:
    table = request_table(arrival_s=[0.0, 1.0])
    (run,) = load_runs(write_job(tmp_path, requests=table))
    table.to_parquet(tmp_path / "distributions.parquet")
    with pytest.raises(ResultError, match=r"distributions\.parquet: has no column quantile"):
        _ = run.distributions


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    (run,) = load_runs(write_job(tmp_path))
    (tmp_path / "requests.parquet").write_text("no parquet")
    with pytest.raises(ResultError, match=r"requests\.parquet: cannot be read"):
        _ = run.requests


def test_a_path_without_jobs_is_named(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match=r"no such directory"):
        load_runs(tmp_path / "nowhere")
    with pytest.raises(ResultError, match=r"holds no result\.json"):
        load_runs(tmp_path)
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(ResultError, match=r"must be a directory that holds result\.json"):
        load_runs(tmp_path / "notes.txt")


def test_a_null_metric_is_a_missing_number(tmp_path: Path) -> None:
    job = write_job(tmp_path, metrics={"ttft_mean_s": 0.1, "l2_hit_ratio": None})
    frame = metrics_frame(load_runs(job))
    assert frame["l2_hit_ratio"].dtype == float
    assert frame["l2_hit_ratio"].isna().all()


def test_run_json_may_be_missing(tmp_path: Path) -> None:
    (write_job(tmp_path) / "run.json").unlink()
    assert load_runs(tmp_path)[0].overrides == []


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    """The hand-made document has the keys that the frame needs of a real one."""
    document = json.loads((write_job(tmp_path) / "result.json").read_text())
    (run,) = load_runs(tmp_path)
    assert run.document == document
