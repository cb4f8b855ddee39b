"""`flocksim-study alignedserve_*`, made tiny: what they print and write."""

import csv
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from experiments.studies import command
from experiments.studies.alignedserve import pool, synthetic
from experiments.studies.alignedserve.ablation import AlignedserveAblation
from experiments.studies.alignedserve.cell import Cell, Setting
from experiments.studies.alignedserve.measures import of_requests
from experiments.studies.alignedserve.mixes import SCALES
from experiments.studies.alignedserve.mixes import synthetic as mix_of
from experiments.studies.alignedserve.systems import ALIGNED, NEITHER
from experiments.studies.measured import Scale
from tests.conftest import Outcome

Study = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCALES, "quick", Scale(num_requests=40, num_seeds=2))
    monkeypatch.setattr(AlignedserveAblation, "systems", (ALIGNED, NEITHER))
    monkeypatch.setattr(AlignedserveAblation, "claims", lambda *_: [])
    monkeypatch.setattr(synthetic, "MODELS", {"opt_13b": "OPT-13B"})
    monkeypatch.setattr(synthetic, "SHARES", (95, 80))
    monkeypatch.setattr(pool, "SIZES_GB", (10, 800))


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


@pytest.mark.parametrize("name", ["mixes", "ablation", "pool"])
def test_a_study_prints_its_tables_and_draws(study: Study, name: str) -> None:
    outcome = study(f"alignedserve_{name}")
    assert outcome.code == 0, outcome.err
    assert "output, all at once" in outcome.out
    assert "output, Poisson" in outcome.out
    found = rows(outcome.directory / "findings.csv")
    assert {row["verdict"] for row in found} <= {
        *("agrees", "disagrees", "not distinguishable", "reported"),
    }
    assert (outcome.directory / f"alignedserve_{name}.png").exists()
    assert {row["setting"].rpartition(": ")[2] for row in found} >= {"aligned_serve"}


def test_prices_of_an_iteration_need_no_jobs(study: Study) -> None:
    outcome = study("alignedserve_latency")
    assert outcome.code == 0, outcome.err
    rises = {
        row["setting"]: float(row["simulated"])
        for row in rows(outcome.directory / "findings.csv")
        if row["quantity"] == "iteration" and not row["claim_low"]
    }
    assert rises["split_kv, 500 tokens"] == 1
    assert rises["split_kv, 1,000 tokens"] < rises["split_kv, 8,000 tokens"]
    assert rises["split_kv, 8,000 tokens"] < rises["padded, 8,000 tokens"]


def test_a_key_that_a_study_sets_is_refused(study: Study) -> None:
    outcome = study("alignedserve_pool", "cluster.num_decode=2")
    assert outcome.code == 2
    assert "alignedserve_pool sets this itself" in outcome.err


def test_waits_and_service_are_told_by_class() -> None:
    requests = pd.DataFrame(
        {
            "arrival_s": [0.0, 1.0, 2.0],
            "first_token_s": [1.0, 3.0, 5.0],
            "decode_start_s": [4.0, None, 9.0],
            "finish_s": [10.0, 3.0, 22.0],
            "prompt_tokens": [1000, 50, 1001],
        }
    )
    found = of_requests(requests)
    assert found["ttft_max_s"] == 3.0
    # The second one has a single token and is ready with it.
    assert found["ready_mean_s"] == (4.0 + 2.0 + 7.0) / 3
    assert (found["ready_max_short_s"], found["ready_max_long_s"]) == (4.0, 7.0)
    assert (found["e2e_short_s"], found["e2e_long_s"]) == (6.0, 20.0)


def test_a_large_model_spans_two_gpus() -> None:
    setting = Setting(label="x", at=1.0, mix=mix_of(95), model="opt_30b")
    case = Cell(setting=setting, system=ALIGNED, rate_per_s=1.5).case(SCALES["quick"])
    assert "cluster.tensor_parallel=2" in case.overrides
    assert "trace.rate_per_s=1.5" in case.overrides
