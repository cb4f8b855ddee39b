"""`flocksim-study feather_*`, made tiny: what they print, write and refuse."""

import csv
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from experiments.studies import command
from experiments.studies.feather import cpu_cells, learned, load, scheduler_cpu
from experiments.studies.feather.cpu_cells import COMPILED, LARGE, PYTHON, SMALL
from experiments.studies.feather.learned import FeatherLearned
from experiments.studies.feather.midpoint import FeatherMidpoint
from experiments.studies.feather.prefix import FeatherPrefix
from experiments.studies.feather.reward import NOTHING, SHARING, FeatherReward
from experiments.studies.feather.transfer import LOADS, FeatherTransfer
from experiments.studies.feather.variants import (
    DFS_WEIGHT,
    FCFS,
    FEATHER,
    HASH_TREE,
    LPM,
    NO_PREFILL,
)
from experiments.studies.measured import Scale
from tests.conftest import Outcome

Study = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = Scale(num_requests=40, num_seeds=2)
    monkeypatch.setitem(load.SCALES, "quick", tiny)
    for sweep in (FeatherPrefix, FeatherReward, FeatherMidpoint):
        monkeypatch.setattr(sweep, "variants", (FCFS, FEATHER))
    monkeypatch.setattr(FeatherPrefix, "values", (1000, 5000))
    monkeypatch.setattr(FeatherReward, "variants", (FCFS, FEATHER, NO_PREFILL))
    monkeypatch.setattr(FeatherReward, "values", (SHARING, NOTHING))
    monkeypatch.setattr(FeatherMidpoint, "arrivals", ("5 groups",))
    monkeypatch.setattr(FeatherLearned, "num_requests", 900)
    monkeypatch.setattr(FeatherTransfer, "num_taught", 60)
    two = {title: LOADS[title] for title in ("5 groups", "no sharing")}
    monkeypatch.setattr(FeatherTransfer, "loads", two)
    monkeypatch.setattr(
        cpu_cells, "_NUM_REQUESTS", dict.fromkeys((cpu_cells.USERS, cpu_cells.CROWD), 150)
    )
    monkeypatch.setattr(scheduler_cpu, "SERVED", (SMALL, LARGE))
    monkeypatch.setattr(scheduler_cpu, "VARIANTS", (LPM, DFS_WEIGHT, HASH_TREE, FEATHER))
    monkeypatch.setitem(scheduler_cpu.PREFIXES, "quick", (5000, 20_000))
    both = dict.fromkeys((PYTHON, COMPILED), (SMALL, LARGE))
    monkeypatch.setitem(scheduler_cpu.MODELS, "quick", both)


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


def test_what_was_learned_is_printed_drawn_and_kept(study: Study, tmp_path: Path) -> None:
    run = study("feather_learned")
    assert (run.code, run.err) == (0, "")
    out = tmp_path / "out"
    figures = {path.name for path in out.glob("*.png")}
    endings = ("", "_no_prefill", "_q", "_no_sharing", "_no_sharing_no_prefill", "_no_sharing_q")
    assert figures == {f"feather_learned{ending}.png" for ending in endings}
    assert len(list((out / "tables").glob("*.json"))) == 2 * 3 * 2
    assert "* size=quick: 900 requests a job, 2 seeds" in run.out
    table = rows(out / "findings.csv")
    states = [row for row in table if row["quantity"] == "states visited"]
    assert len(states) == 2 * 3
    assert all(float(row["simulated"]) >= 1 for row in states)


def test_a_table_that_is_gone_is_learned_again(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learned, "LOADS", {learned.SHARING: learned.LOADS[learned.SHARING]})
    first = study("feather_learned")
    assert first.code == 0
    tables = tmp_path / "out" / "tables"
    texts = {path.name: path.read_text() for path in tables.iterdir()}
    assert len(set(texts.values())) == len(texts)
    for path in sorted(tables.iterdir())[::2]:
        path.unlink()
    assert study("feather_learned").out == first.out
    assert {path.name: path.read_text() for path in tables.iterdir()} == texts


def test_a_table_serves_other_workloads_than_the_one_that_taught_it(
    study: Study, tmp_path: Path
) -> None:
    run = study("feather_transfer")
    assert (run.code, run.err) == (0, "")
    table = rows(tmp_path / "out" / "findings.csv")
    outputs = {
        (row["section"], row["setting"]): float(row["simulated"])
        for row in table
        if row["section"].startswith("output, served")
    }
    labels = ("fcfs", "untaught", "taught by 5 groups", "taught by no sharing")
    sections = ("output, served: 5 groups", "output, served: no sharing")
    assert outputs.keys() == {(section, label) for section in sections for label in labels}
    ratios = {
        (row["setting"], row["quantity"]): float(row["simulated"])
        for row in table
        if row["section"] == "ratios, served: no sharing"
    }
    for label in labels[2:]:
        mine, fcfs = (outputs[sections[1], one] for one in (label, "fcfs"))
        assert ratios[label, "output over that of fcfs"] == pytest.approx(mine / fcfs, rel=0.05)
    assert all(value > 0 for value in outputs.values())


def test_scheduler_cpu_grows_with_the_prompt_and_shrinks_when_compiled(
    study: Study, tmp_path: Path
) -> None:
    run = study("feather_scheduler_cpu")
    assert (run.code, run.err) == (0, "")
    shares = {
        (row["section"].rpartition(", ")[2], row["setting"]): float(row["simulated"])
        for row in rows(tmp_path / "out" / "findings.csv")
        if row["section"].startswith("scheduler CPU / busy GPU time, 0.5B")
    }
    for policy in ("lpm", "dfs_weight", "hash_tree", "feather"):
        short, long = (shares["Python", f"{n} tokens: {policy}"] for n in ("5,000", "20,000"))
        assert 0 < short < long
        assert shares["compiled", f"20,000 tokens: {policy}"] < long / 10
    assert shares["Python", "20,000 tokens: lpm"] > 2 * shares["Python", "20,000 tokens: hash_tree"]


def test_seed_by_seed_a_job_draws_as_its_replications_do(study: Study, tmp_path: Path) -> None:
    assert study("feather_transfer", "seed=5").code == 0
    jobs = tmp_path / "out" / "jobs"
    (together,) = jobs.glob("5x*-untaught")
    both = pd.read_parquet(together / "requests.parquet")
    for seed in (0, 1):
        requests = both[both["replication"] == seed]
        (alone,) = jobs.glob(f"5x*-taught_by_5_groups-{seed}")
        arrivals = pd.read_parquet(alone / "requests.parquet")["arrival_s"]
        assert arrivals.tolist() == requests["arrival_s"].tolist()
        (teacher,) = jobs.glob(f"5x*-feather-{1000 + seed}")
        assert pd.read_parquet(teacher / "requests.parquet")["arrival_s"][9] != arrivals[9]


def test_a_learner_that_never_earns_anything_is_told(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FeatherLearned, "num_requests", 20)
    run = study("feather_learned")
    assert run.code == 2
    assert run.error_line.endswith(": no decision was rewarded, so nothing was learned")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["feather_prefix", "trace.num_groups=3"], "feather_prefix sets this itself"),
        (["feather_prefix", "batching=lpm"], "batching=lpm: feather_prefix sets this itself"),
        (["feather_standard", "scheduler.enabled=true"], "feather_standard sets this itself"),
        (["feather_transfer", "batching.learn=true"], "feather_transfer sets this itself"),
        (["feather_scheduler_cpu", "model=llama3_8b"], "feather_scheduler_cpu sets this itself"),
        (["feather_models", "model=llama3_8b"], "feather_models sets this itself"),
        (["feather_prefx"], "did you mean feather_prefix?"),
    ],
)
def test_what_a_study_sets_itself_is_refused(study: Study, arguments: list[str], line: str) -> None:
    run = study(*arguments)
    assert run.code == 2
    assert line in run.error_line
