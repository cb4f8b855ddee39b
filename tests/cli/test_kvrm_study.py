"""`flocksim-study kvrm_*`, made tiny: what they print, write and draw."""

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.studies import command
from experiments.studies.kvrm import bursty, mixed
from experiments.studies.kvrm.notes import WITHDRAWN
from experiments.studies.kvrm.variants import MAIN, STAGED
from experiments.studies.measured import Scale
from tests.conftest import Outcome

Study = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Few requests, and no recording beside the packages."""
    monkeypatch.setitem(mixed.SCALES, "quick", Scale(num_requests=12, num_seeds=2))
    monkeypatch.setattr(mixed, "LONG_SHARES", (0.0, 0.3))
    monkeypatch.setitem(bursty.CODE.generated["quick"], "trace.num_requests", "25")
    monkeypatch.setenv("FLOCKSIM_DATA", str(tmp_path / "nowhere"))


@pytest.fixture
def study(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Study:
    """Runs the command in this process; results go to `tmp_path / "out"`."""

    def run(*arguments: str) -> Outcome:
        capsys.readouterr()
        place = ("--dir", str(tmp_path / "out"), "--workers", "1")
        code = command.run_command([*arguments, *place])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err, tmp_path / "out")

    return run


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_mixed_lengths_under_every_executor(study: Study) -> None:
    run = study("kvrm_mixed")
    assert (run.code, run.err) == (0, "")
    assert {path.name for path in run.directory.iterdir()} == {
        *("findings.csv", "findings.md", "kvrm_mixed.png", "jobs")
    }
    table = rows(run.directory / "findings.csv")
    labels = {variant.label for variant in (*MAIN, *STAGED)}
    for share in ("0%", "30%"):
        outputs = [row for row in table if row["section"] == f"{share} long: output"]
        assert {row["setting"] for row in outputs} == labels
        assert all(float(row["simulated"]) > 0 for row in outputs)
        groups = [row for row in table if row["section"] == f"{share} long: groups per step"]
        assert {row["setting"] for row in groups} == {"kv_rm", *(v.label for v in STAGED)}
        reserved = {
            row["setting"]: float(row["simulated"])
            for row in table
            if row["section"] == f"{share} long: reserved KV"
        }
        assert reserved["static_graph"] > reserved["kv_rm"] > reserved["cuda_graph"]
    assert {row["verdict"] for row in table} == {"reported"}
    small = [row for row in table if row["section"] == "30% long, 0.5B on H100: output"]
    assert {row["setting"] for row in small} == {variant.label for variant in MAIN}


def test_a_stand_in_for_the_recording_is_named_as_one(study: Study) -> None:
    run = study("kvrm_bursty")
    assert (run.code, run.err) == (0, "")
    assert {path.name for path in run.directory.iterdir()} == {
        *("findings.csv", "findings.md", "jobs"),
        *("kvrm_bursty.png", "kvrm_bursty_over_time.png"),
    }
    assert "Azure code (stand-in): step p99.9" in run.out
    assert "generated requests stand in for it" in run.out
    table = rows(run.directory / "findings.csv")
    over_time = [row for row in table if row["section"] == "fragmentation over time"]
    assert {row["setting"] for row in over_time} == {"kv_rm", *(v.label for v in STAGED)}
    assert all(0 <= float(row["simulated"]) <= 100 for row in over_time if row["simulated"])
    reserved = [row for row in table if row["section"] == "reserved KV over time"]
    assert {row["setting"] for row in reserved} == {"cuda_graph", "static_graph", "kv_rm"}
    static = {row["simulated"] for row in reserved if row["setting"] == "static_graph"}
    assert len(static - {""}) == 1


@pytest.mark.parametrize("name", ["kvrm_mixed", "kvrm_bursty"])
def test_the_first_note_says_that_the_paper_was_withdrawn(study: Study, name: str) -> None:
    run = study(name)
    notes = [line for line in run.out.splitlines() if line.startswith("* ")]
    assert notes[0] == f"* {WITHDRAWN}"
    assert "withdrawn" in run.out.splitlines()[0]
    page = (run.directory / "findings.md").read_text(encoding="utf-8")
    assert f"* {WITHDRAWN}" in page


def test_what_the_study_sets_is_refused(study: Study) -> None:
    run = study("kvrm_mixed", "executor=eager")
    assert run.code == 2
    assert "executor=eager: kvrm_mixed sets this itself" in run.err
