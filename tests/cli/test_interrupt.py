"""Ctrl-C: what is complete is kept, exit code 130."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow.parquet as pq
import pytest

from experiments import job
from experiments.job import simulate_job
from tests.conftest import TINY, Flocksim

LONG = (*TINY, "trace.num_requests=3000", "trace.rate_per_s=50")


@contextmanager
def ctrl_c_at_first_report(num_requests: int, label: str) -> Iterator[object]:
    def report(now_s: float, num_done: int) -> None:
        signal.raise_signal(signal.SIGINT)

    yield report


@pytest.fixture
def _interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulate_job, "__defaults__", (ctrl_c_at_first_report, None, None))


@pytest.mark.usefixtures("_interrupted")
def test_ctrl_c_keeps_what_is_complete(flocksim: Flocksim) -> None:
    run = flocksim(*LONG)
    assert run.code == 130
    result = json.loads((run.directory / "result.json").read_text())
    metrics = result["metrics"]
    assert (result["status"], result["regime"]) == ("interrupted", None)
    assert 0 < metrics["num_finished"] < 3000
    assert metrics["num_finished"] + metrics["num_unfinished"] == metrics["num_requests"] == 3000
    rows = pq.read_table(run.directory / "requests.parquet")
    assert rows.num_rows == 3000
    assert "interrupted at" in run.out
    assert "regime" not in run.out


@pytest.mark.usefixtures("_interrupted")
def test_ctrl_c_ends_a_sweep(flocksim: Flocksim) -> None:
    run = flocksim("-m", *LONG, "seed=0,1,2", "hydra.launcher.n_jobs=1")
    assert run.code == 130
    written = [path.parent.name for path in run.directory.glob("*/result.json")]
    assert written == ["0"]
    assert json.loads((run.directory / "0" / "result.json").read_text())["status"] == "interrupted"


def test_ctrl_c_while_loading_leaves_no_result(
    flocksim: Flocksim, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("experiments.sweep.replication.build_workload", interrupted)
    run = flocksim(*TINY)
    assert run.code == 130
    assert run.error_line == "flocksim: interrupted"
    assert not (run.directory / "result.json").exists()


@pytest.mark.parametrize("where", ["result_document", "write_requests"])
def test_ctrl_c_after_the_simulation_waits_until_its_files_are_written(
    where: str, flocksim: Flocksim, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = getattr(job, where)

    def interrupted(*arguments: object) -> object:
        signal.raise_signal(signal.SIGINT)
        return original(*arguments)

    monkeypatch.setattr(job, where, interrupted)
    run = flocksim(*TINY)
    assert run.code == 130
    assert run.error_line == "flocksim: interrupted"
    result = json.loads((run.directory / "result.json").read_text())
    assert (result["status"], result["metrics"]["num_finished"]) == ("ok", 40)
