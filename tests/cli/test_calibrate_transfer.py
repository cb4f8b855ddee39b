"""`flocksim-calibrate transfer`: what it writes and refuses."""

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest

from experiments.calibrate import command
from hwmodels.device import load_profile
from hwmodels.kernels.models import load_kernels
from tests.conftest import Outcome

Run = Callable[..., Outcome]

DONORS = {
    "a100_sxm_40gb": "a100_sxm_80gb",
    "h20": "h100_sxm",
    "l40s": "a100_sxm_80gb",
    "rtx6000_ada": "a100_sxm_80gb",
}
"""Packaged profile that nobody measured -> the one whose kernels it takes."""


@pytest.fixture
def calibrate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Run:
    """Runs the command in this process, in an empty directory."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path) -> Outcome:
        capsys.readouterr()
        code = command.run_command([str(item) for item in arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err, tmp_path)

    return run


def own_profile(folder: Path, name: str = "mine") -> Path:
    """A profile of the user's own, with the constants of an L40S."""
    record = json.loads((files("hwmodels") / "profiles" / "l40s.json").read_text())
    folder.mkdir(exist_ok=True)
    path = folder / "mine.json"
    path.write_text(json.dumps(record | {"name": name}))
    return path


@pytest.mark.parametrize("target", DONORS)
def test_the_packaged_profiles_repeat_byte_for_byte(
    calibrate: Run, tmp_path: Path, target: str
) -> None:
    packaged = files("hwmodels") / "profiles" / "kernels" / f"{target}.json"
    date = json.loads(packaged.read_text())["date"]
    outcome = calibrate("transfer", "--from", DONORS[target], "--to", target, "--date", date)
    assert outcome.code == 0
    assert outcome.out == f"{target}.json\n"
    assert (tmp_path / f"{target}.json").read_bytes() == packaged.read_bytes()
    assert "gemm: Transferred from " in outcome.err
    assert "There:" not in outcome.err


def test_kernels_of_an_own_profile_land_where_a_run_looks_for_them(
    calibrate: Run, tmp_path: Path
) -> None:
    profile = own_profile(tmp_path / "gpus")
    outcome = calibrate("transfer", "--from", "a100_sxm_80gb", "--to", profile)
    assert outcome.code == 0
    assert outcome.out == f"{profile.parent / 'kernels' / 'mine.json'}\n"
    assert load_profile(profile).kernels.device == "mine"
    assert load_profile(profile).gemm_time_s(1, 4096, 4096) > 0


def test_kernels_that_exist_are_replaced_only_when_named(calibrate: Run, tmp_path: Path) -> None:
    profile = own_profile(tmp_path / "gpus")
    arguments = ("transfer", "--from", "a100_sxm_80gb", "--to", profile)
    assert calibrate(*arguments, "--date", "2026-01-01").code == 0
    refused = calibrate(*arguments)
    assert refused.code == 2
    kernels = profile.parent / "kernels" / "mine.json"
    assert f"{kernels} exists; to replace it, give --out {kernels}" in refused.error_line
    assert load_kernels(kernels).date == "2026-01-01"
    assert calibrate(*arguments, "--date", "2026-01-02", "--out", kernels).code == 0
    assert load_kernels(kernels).date == "2026-01-02"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--to", "l40s"], "--from"),
        (["--from", "a100_sxm_80gb"], "--to"),
        (["--from", "a100", "--to", "l40s"], "unknown hardware profile 'a100'"),
        (["--from", "a100_sxm_80gb", "--to", "no_such.json"], "no_such.json"),
        (["--from", "a100_sxm_80gb", "--to", "a100_sxm_80gb"], "is the same device"),
        (["--from", "rtx6000_ada", "--to", "l40s"], "rtx6000_ada was not measured"),
        (["--from", "a100_sxm_80gb", "--to", "l40s", "--date", "today"], "must be a date"),
        (["--from", "a100_sxm_80gb", "--to", "l40s", "--data", "."], "--data"),
        (["--from", "a100_sxm_80gb", "--to", "l40s", "--out", "."], "."),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    calibrate: Run, tmp_path: Path, arguments: list[str], line: str
) -> None:
    outcome = calibrate("transfer", *arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.error_line.startswith("flocksim-calibrate: error: ")
    assert line in outcome.error_line
    assert list(tmp_path.iterdir()) == []


def test_an_own_profile_without_kernels_is_no_source(calibrate: Run, tmp_path: Path) -> None:
    profile = own_profile(tmp_path)
    outcome = calibrate("transfer", "--from", profile, "--to", "h20")
    assert outcome.code == 2
    assert "device mine has no calibrated kernels" in outcome.error_line


def test_help_is_an_answer(calibrate: Run) -> None:
    outcome = calibrate("transfer", "--help")
    assert outcome.code == 0
    assert "--from" in outcome.out
    assert outcome.err == ""
