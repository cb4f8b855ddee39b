"""`flocksim-study feather_*`, made tiny: what they print, write and refuse."""

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.studies import command
from experiments.studies.feather import load
from experiments.studies.feather.midpoint import FeatherMidpoint
from experiments.studies.feather.prefix import FeatherPrefix
from experiments.studies.feather.reward import NOTHING, SHARING, FeatherReward
from experiments.studies.feather.variants import FCFS, FEATHER, NO_PREFILL
from tests.conftest import Outcome

Study = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = load.Scale(num_requests=40, num_seeds=2)
    monkeypatch.setitem(load.SCALES, "quick", tiny)
    for sweep in (FeatherPrefix, FeatherReward, FeatherMidpoint):
        monkeypatch.setattr(sweep, "variants", (FCFS, FEATHER))
    monkeypatch.setattr(FeatherPrefix, "values", (1000, 5000))
    monkeypatch.setattr(FeatherReward, "variants", (FCFS, FEATHER, NO_PREFILL))
    monkeypatch.setattr(FeatherReward, "values", (SHARING, NOTHING))
    monkeypatch.setattr(FeatherMidpoint, "arrivals", ("5 groups",))


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


def test_a_sweep_prints_claims_and_measures_and_draws_its_figure(
    study: Study, tmp_path: Path
) -> None:
    run = study("feather_prefix")
    assert (run.code, run.err) == (0, "")
    out = tmp_path / "out"
    assert {path.name for path in out.iterdir()} == {
        *("findings.csv", "findings.md", "feather_prefix.png", "jobs")
    }
    assert "* size=quick: 40 requests a job, 2 seeds" in run.out
    table = rows(out / "findings.csv")
    claims = [row for row in table if row["claim_low"]]
    assert len(claims) == 2 * 2
    assert {row["role"] for row in claims} == {"[paper]"}
    outputs = {
        row["setting"]: float(row["simulated"])
        for row in table
        if row["section"] == "output, Poisson"
    }
    assert outputs.keys() == {f"{n} tokens: {p}" for n in ("1,000", "5,000") for p in _POLICIES}
    (ratio,) = (row for row in claims if row["setting"] == "5,000 tokens, Poisson")
    assert float(ratio["simulated"]) == pytest.approx(
        outputs["5,000 tokens: feather"] / outputs["5,000 tokens: fcfs"], rel=0.01
    )
    waits = [row for row in table if row["section"].startswith("recomputed prefill")]
    assert {row["simulated"] for row in waits} == {"0"}


_POLICIES = ("fcfs", "feather")


def test_a_load_without_groups_has_no_group_measures(study: Study, tmp_path: Path) -> None:
    assert study("feather_reward").code == 0
    table = rows(tmp_path / "out" / "findings.csv")
    by_setting = {
        row["setting"]: row["simulated"]
        for row in table
        if row["section"] == "least served group at half time, Poisson"
    }
    assert by_setting["no sharing: feather"] == ""
    assert 0 <= float(by_setting["5 groups: feather"]) <= 100


def test_the_midpoint_study_writes_profiles_and_runs_them(study: Study, tmp_path: Path) -> None:
    run = study("feather_midpoint")
    assert (run.code, run.err) == (0, "")
    profiles = {path.name for path in (tmp_path / "out" / "profiles").glob("*.json")}
    assert profiles == {f"midpoint_{name}_mib.json" for name in ("80", "92_5", "105")}


def test_one_deviating_request_costs_a_batch_with_cascade_attention(
    study: Study, tmp_path: Path
) -> None:
    assert study("feather_deviating").code == 0
    ratios = {
        row["setting"]: float(row["simulated"])
        for row in rows(tmp_path / "out" / "findings.csv")
        if row["section"].startswith("decode time with")
    }
    assert ratios["100 x 5,000, cascade on"] > 1.5
    assert ratios["100 x 5,000, cascade off"] == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["feather_prefix", "trace.num_groups=3"], "feather_prefix sets this itself"),
        (["feather_prefix", "batching=lpm"], "batching=lpm: feather_prefix sets this itself"),
        (["feather_standard", "scheduler.enabled=true"], "feather_standard sets this itself"),
        (["feather_models", "model=llama3_8b"], "feather_models sets this itself"),
        (["feather_prefx"], "did you mean feather_prefix?"),
    ],
)
def test_what_a_study_sets_itself_is_refused(study: Study, arguments: list[str], line: str) -> None:
    run = study(*arguments)
    assert run.code == 2
    assert line in run.error_line
