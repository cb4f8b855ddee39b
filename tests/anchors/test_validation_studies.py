"""Whole simulated runs against published measurements, by the studies that users run.

Named tolerances: mean absolute error of four inter-token latencies of vLLM on A100 5 %, of which
the hit share is fitted on two; time per output token on an RTX 6000 Ada 10 %, with cascade
attention on and off.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.studies.ada_cascade.study import TPOT_TITLE, VARIED_TITLE
from experiments.studies.conduct import conduct
from experiments.studies.findings import Findings
from experiments.studies.registry import study_named
from experiments.studies.vllm_a100 import study as a100
from hwmodels.device import load_profile


def found_by(name: str, directory: Path, *overrides: str) -> Findings:
    return conduct(study_named(name), "quick", directory, 1, overrides)


@pytest.fixture(scope="module")
def ada(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    return found_by("validate_ada_cascade", tmp_path_factory.mktemp("ada"))


def test_inter_token_latencies_of_vllm_on_a100_within_5_percent(tmp_path: Path) -> None:
    found = found_by("validate_vllm_a100", tmp_path)
    four = found.verdicts[0]
    assert four.limit_ratio == 0.05
    assert four.word == "holds"
    rows = found.section(a100.ITL_TITLE).rows
    assert [row.role for row in rows] == ["fitted", "fitted", "not fitted", "not fitted"]
    assert max(abs(row.error_ratio or 1.0) for row in rows) < 0.1


def test_three_times_the_host_time_per_step_is_not_within_5_percent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fit cannot hide a wrong cost."""
    short = replace(a100._EXTENTS["quick"], seconds=60.0, num_seeds=1, num_poisson_seeds=1)
    monkeypatch.setitem(a100._EXTENTS, "quick", short)
    step_s = 3 * load_profile("a100_sxm_80gb").step_overhead_s
    overlay = {
        "overlay_of": "a100_sxm_80gb",
        "name": "slow host",
        "date": "2026-11-30",
        "constants": {"step_overhead_s": {"value": step_s, "unit": "s", "source": "made wrong"}},
    }
    profile = tmp_path / "slow.json"
    profile.write_text(json.dumps(overlay))
    given = ("hardware=from_file", f"hardware.path='{profile}'")
    found = found_by("validate_vllm_a100", tmp_path / "out", *given)
    assert found.verdicts[0].word == "fails"


def test_time_per_output_token_on_ada_within_10_percent_with_cascade_on_and_off(
    ada: Findings,
) -> None:
    off, on, on_500 = ada.section(TPOT_TITLE).rows
    assert (off.limit_ratio, on.limit_ratio, on_500.limit_ratio) == (0.1, 0.1, None)
    assert (off.role, on.role) == ("fitted", "not fitted")
    assert [verdict.word for verdict in ada.verdicts] == ["holds", "holds", "reported"]


def test_without_l2_or_with_another_block_rate_the_ada_row_would_fail(ada: Findings) -> None:
    errors = {row.role: abs(row.error_ratio or 0.0) for row in ada.section(VARIED_TITLE).rows}
    assert errors["no L2 hits"] > 0.5
    assert min(errors["thread block -20 %"], errors["thread block +25 %"]) > 0.1
