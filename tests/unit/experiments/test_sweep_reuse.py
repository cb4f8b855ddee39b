"""Results that a sweep finds and does not compute again."""

import json
import os
from pathlib import Path

import pytest

from experiments.composing import compose_config
from experiments.job import simulate_job
from experiments.results.job_key import job_key
from experiments.sweep.reuse import (
    STAGING,
    key_of,
    refuse_shared_directories,
    reuse_results,
    stored_key,
    stored_results,
)
from experiments.sweep.task import Task, run_task
from policies.batching.feather.learner_state import LearnerKind, LearnerState
from tests.conftest import TINY

FOREIGN_TRACE = """
import numpy as np

from traces.schema import TraceTable
from traces.synthetic.independent import SyntheticTrace


ONE = {"kind": "fixed", "value": 9}


class Fixed:
    def load(self, seed: int) -> TraceTable:
        return SyntheticTrace(num_requests=5, rate_per_s=1.0, prompt=ONE, output=ONE).load(seed)
"""


def task(number: int, directory: Path, *overrides: str) -> Task:
    config, choices = compose_config([*TINY, *overrides])
    return Task(
        number=number,
        config=config,
        choices=choices,
        overrides=overrides,
        directory=directory / str(number),
    )


def contents(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != "run.json"
    }


@pytest.mark.parametrize(
    "overrides",
    [
        ["trace=synthetic", "trace.num_requests=20"],
        ["trace=mix", "trace.limit=20"],
        ["trace=synthetic", "trace.num_requests=20", "replications=2", "seed=5"],
        ["trace=synthetic", "trace.num_requests=20", "trace.load=0.5"],
        ["trace=synthetic", "trace.num_requests=20", "trace.flood=true"],
    ],
)
def test_the_key_before_a_job_is_the_key_in_its_result(
    overrides: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    composed = compose_config(overrides)
    key = key_of(*composed)
    assert key is not None
    assert key == simulate_job(*composed).document["job_key"]


def test_the_key_of_a_file_follows_its_content_and_not_its_path(
    mooncake_file: Path, tmp_path: Path
) -> None:
    def key(path: Path) -> str | None:
        composed = compose_config(["trace=mooncake", f"trace.path={path}"])
        found = key_of(*composed)
        assert found == simulate_job(*composed).document["job_key"]
        return found

    copied = tmp_path / "copy.jsonl"
    copied.write_bytes(mooncake_file.read_bytes())
    first = key(mooncake_file)
    assert key(copied) == first
    copied.write_bytes(mooncake_file.read_bytes().replace(b"300", b"301"))
    os.utime(copied, ns=(1, 1))
    assert key(copied) != first


def test_only_loading_tells_what_a_foreign_trace_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "foreign_trace_of_reuse.py").write_text(FOREIGN_TRACE)
    monkeypatch.syspath_prepend(tmp_path)
    composed = compose_config(["trace=synthetic"])
    composed[0]["trace"] = {
        key: value for key, value in composed[0]["trace"].items() if key not in _SYNTHETIC
    } | {"_target_": "foreign_trace_of_reuse.Fixed"}
    assert key_of(*composed) is None
    assert simulate_job(*composed).document["job_key"]


_SYNTHETIC = ("num_requests", "rate_per_s", "arrivals", "prompt", "output")


def test_a_job_that_cannot_run_has_no_key(tmp_path: Path) -> None:
    config, choices = compose_config([*TINY, "cluster.num_instances=0"])
    assert key_of(config, choices) is None
    missing = compose_config(["trace=mooncake", f"trace.path={tmp_path / 'missing'}"])
    assert key_of(*missing) is None


def test_a_finished_job_is_found_and_an_unfinished_one_is_not(tmp_path: Path) -> None:
    first, second = task(0, tmp_path, "seed=0"), task(1, tmp_path, "seed=1")
    run_task(first)
    assert reuse_results([first, second], tmp_path) == {0}
    path = first.directory / "result.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "status": "interrupted"}))
    assert reuse_results([first, second], tmp_path) == set()
    path.write_text(path.read_text()[:100])
    assert stored_key(first.directory) is None


def test_results_move_with_their_jobs_even_where_two_swap(tmp_path: Path) -> None:
    a, b = task(0, tmp_path, "seed=0"), task(1, tmp_path, "seed=1")
    for one in (a, b):
        run_task(one)
    before = contents(tmp_path)
    swapped = [
        task(0, tmp_path, "seed=1"),
        task(1, tmp_path, "seed=0"),
        task(2, tmp_path, "seed=2"),
    ]
    assert reuse_results(swapped, tmp_path) == {0, 1}
    after = contents(tmp_path)
    for name in ("result.json", "requests.parquet", "distributions.parquet"):
        assert after[f"0/{name}"] == before[f"1/{name}"]
        assert after[f"1/{name}"] == before[f"0/{name}"]
    assert set(after) == set(before)
    run = json.loads((tmp_path / "0" / "run.json").read_text())
    assert run["overrides"] == ["seed=1"]


def test_a_copy_that_was_cut_short_loses_nothing(tmp_path: Path) -> None:
    done = task(0, tmp_path, "seed=0")
    run_task(done)
    staging = tmp_path / f"{STAGING}x"
    staging.mkdir()
    done.directory.rename(staging / "5")
    assert reuse_results([done], tmp_path) == {0}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0"]
    assert list(stored_results(tmp_path).values()) == [done.directory]


def test_two_jobs_in_one_directory_are_noticed(tmp_path: Path) -> None:
    tasks = [task(number, tmp_path) for number in range(3)]
    assert refuse_shared_directories(tasks) is None
    line = refuse_shared_directories([*tasks, task(1, tmp_path)])
    assert line is not None
    assert "jobs #1 and #1 would both write to" in line


def test_a_key_needs_something_that_identifies_the_trace() -> None:
    run = simulate_job(*compose_config([*TINY]))
    shown = run.document["config"]
    alone = job_key(run.job, run.deployment, shown)
    assert alone == run.document["job_key"]
    assert job_key(run.job, run.deployment, shown, {"sha256": "x"}) != alone


@pytest.mark.parametrize("place", ["batching", "batching@cluster.decode_batching"])
def test_another_table_that_a_learner_starts_from_is_another_job(
    place: str, tmp_path: Path
) -> None:
    table = tmp_path / "table.json"
    key = place.partition("@")[2] or place
    learner = [f"{place}=feather", f"{key}.learn=false", f"{key}.state_in={table}"]
    overrides = [*TINY, "cluster=disaggregated", *learner]
    keys = set()
    for num_rewarded in (1, 2):
        kind = LearnerKind("ucb1", "step_time", 50)
        table.write_text(LearnerState(kind, num_rewarded, [0], [0.0], []).to_text())
        keys.add(key_of(*compose_config(overrides)))
    assert len(keys) == 2
    assert None not in keys
