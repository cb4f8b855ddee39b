"""`flocksim-study lmetric_*`, made tiny and without public traces: what they print and write."""

import csv
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from experiments.capacity.steady import steady_rate_of
from experiments.studies import command
from experiments.studies.lmetric import hot_class, hotspot
from experiments.studies.lmetric.hotspot import LmetricHotspot
from experiments.studies.lmetric.indicators import LmetricIndicators
from experiments.studies.lmetric.routers import AGENTS, LmetricRouters
from experiments.studies.lmetric.setting import SCALES, Scale
from experiments.studies.lmetric.sources import AGENT, CONVERSATION, SYNTHETIC
from experiments.studies.lmetric.variants import JSQ
from experiments.studies.lmetric.weights import WEIGHTS, LmetricWeights
from tests.conftest import Outcome

Study = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FLOCKSIM_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tiny = {"quick": Scale(size="quick", num_seeds=2, num_warm=10)}
    monkeypatch.setitem(SCALES, "quick", tiny["quick"])
    for study in (LmetricHotspot, LmetricIndicators, LmetricWeights):
        monkeypatch.setattr(study, "scales", tiny)
    for source in (CONVERSATION, SYNTHETIC, AGENT):
        sections = {**source.generated["quick"], "trace.num_requests": "60"}
        monkeypatch.setitem(source.generated, "quick", sections)
    monkeypatch.setitem(hot_class.NUM_REQUESTS, "quick", 200)
    monkeypatch.setitem(hotspot.SHARES, "quick", (0.3,))
    monkeypatch.setitem(hotspot.PREFIXES, "quick", (1024,))


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


def test_a_study_without_public_traces_says_so_and_runs_on_stand_ins(
    study: Study, tmp_path: Path
) -> None:
    run = study("lmetric_indicators")
    assert (run.code, run.err) == (0, "")
    out = tmp_path / "out"
    assert {path.name for path in out.iterdir()} == {
        *("findings.csv", "findings.md", "lmetric_indicators.png", "jobs")
    }
    assert "* conversation: " in run.out
    assert "FLOCKSIM_DATA=DIR names the folder" in run.out
    table = rows(out / "findings.csv")
    settings = {row["setting"] for row in table if row["claim_low"]}
    assert settings == {
        f"{source} (stand-in), 7B, load {load}"
        for source in ("conversation", "synthetic")
        for load in ("0.5", "0.9")
    }
    place = "conversation (stand-in), 7B, load 0.9"
    means = {
        row["setting"].removeprefix(f"{place}: "): float(row["simulated"])
        for row in table
        if row["section"] == "TTFT p50"
    }
    (difference,) = (
        float(row["simulated"])
        for row in table
        if row["section"] == f"against lmetric: {place}"
        and (row["setting"], row["quantity"]) == ("miss ratio for tokens", "TTFT p50")
    )
    ratio = means["miss ratio for tokens"] / means["lmetric"]
    assert difference == pytest.approx(100 * (ratio - 1), rel=1e-3, abs=1e-3)
    same = [row for row in table if row["section"] == f"against lmetric: {place}"]
    (noise,) = (
        row for row in same if (row["setting"], row["quantity"]) == ("lmetric, ties +1", "TTFT p50")
    )
    ends = [abs(float(noise[key])) for key in ("interval_low", "interval_high")]
    (floor,) = {float(row["limit_ratio"]) for row in same if row["quantity"] == "TTFT p50"}
    assert floor == pytest.approx(max(ends) / 100, abs=1e-4)
    assert max(ends) > 0
    capacities = [row for row in table if row["section"].startswith("capacity")]
    assert [row["setting"] for row in capacities] == [
        f"{source} (stand-in), 7B" for source in ("conversation", "synthetic")
    ]
    # A job at load 0.9 has 1.8 times the rate of one at load 0.5, and that is half the capacity.
    half, high = (
        float(re.findall(r"rate_scale=([0-9.]+)", path.read_text(encoding="utf-8"))[0])
        for load in ("0_5", "0_9")
        for path in (out / "jobs").glob(f"conversation-7B-{load}-lmetric/run.json")
    )
    assert high == pytest.approx(1.8 * half, rel=1e-4)
    (flood,) = (out / "jobs").glob("conversation-7B-flood/requests.parquet")
    capacity = steady_rate_of(pd.read_parquet(flood)).rate_per_s
    assert capacity is not None
    assert float(capacities[0]["simulated"]) == pytest.approx(capacity, rel=1e-4)
    (job,) = (out / "jobs").glob("conversation-7B-0_5-lmetric/requests.parquet")
    first = pd.read_parquet(job).query("replication == 0")["arrival_s"]
    rate = len(first) / (first.max() - first.min())
    assert rate == pytest.approx(0.5 * capacity, rel=1e-3)


def test_a_load_of_waiting_sessions_is_a_rate_of_their_starts(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LmetricRouters, "plan", lambda *_: {AGENTS: (JSQ,)})
    monkeypatch.setattr(LmetricRouters, "claims", lambda *_: ())
    assert study("lmetric_routers").code == 0
    capacity = next(
        row for row in rows(tmp_path / "out" / "findings.csv") if row["quantity"] == "capacity"
    )
    rate = 0.5 * float(capacity["simulated"])
    documents = list((tmp_path / "out" / "jobs").glob("agent-7B-0_5-*/run.json"))
    assert len(documents) == 3
    for path in documents:
        (asked,) = re.findall(r"trace.rate_per_s=([0-9.]+)", path.read_text(encoding="utf-8"))
        assert float(asked) == pytest.approx(rate, rel=1e-4)


def test_a_hot_class_is_measured_apart(study: Study, tmp_path: Path) -> None:
    assert study("lmetric_hotspot").code == 0
    table = rows(tmp_path / "out" / "findings.csv")
    found = {
        row["quantity"]: float(row["simulated"])
        for row in table
        if row["section"].startswith("holders of the prefix")
    }
    assert 0 < found["|M|"] <= 16
    assert 0 < found["class sent to holders"] <= 100
    hot = [row for row in table if row["quantity"] == "TTFT mean, hot class"]
    assert {row["setting"].rpartition(": ")[2] for row in hot} == {
        *("lmetric, ties +1", "detector sliding", "detector tumbling", "jsq")
    }
    assert all(row["simulated"] for row in hot)


def test_the_weights_have_a_step_between_neighbours(study: Study, tmp_path: Path) -> None:
    assert study("lmetric_weights").code == 0
    table = rows(tmp_path / "out" / "findings.csv")
    steps = [row for row in table if row["section"].startswith("TTFT p50: change by a step")]
    assert len(steps) == 2 * (len(WEIGHTS) - 1)
    claims = [row for row in table if row["claim_low"]]
    assert len(claims) == 2
    for claim in claims:
        own = [
            abs(float(step["simulated"]))
            for step in steps
            if step["setting"].startswith(f"{claim['setting']}: ")
        ]
        assert abs(float(claim["simulated"])) == pytest.approx(max(own))


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["lmetric_routers", "routing=jsq"], "routing=jsq: lmetric_routers sets this itself"),
        (["lmetric_idle", "trace.load=0.5"], "trace.load=0.5: lmetric_idle sets this itself"),
        (["lmetric_scaling", "model=llama3_8b"], "lmetric_scaling sets this itself"),
        (["lmetric_routrs"], "did you mean lmetric_routers?"),
    ],
)
def test_what_a_study_sets_itself_is_refused(study: Study, arguments: list[str], line: str) -> None:
    run = study(*arguments)
    assert run.code == 2
    assert line in run.error_line
