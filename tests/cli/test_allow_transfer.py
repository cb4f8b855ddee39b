"""`hardware.allow_transfer`: kernels for a GPU of the user's own, refused, given and flagged."""

import json
from importlib.resources import files
from pathlib import Path

import pytest

from tests.conftest import TINY, Flocksim


@pytest.fixture
def own(tmp_path: Path) -> tuple[str, ...]:
    """Overrides that choose a profile of the user's own, the constants of an L40S."""
    record = json.loads((files("hwmodels") / "profiles" / "l40s.json").read_text())
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(record | {"name": "mine"}))
    return (*TINY, "hardware=from_file", f"hardware.path={path}")


def test_without_it_a_profile_without_kernels_is_refused_and_told_how_to_go_on(
    flocksim: Flocksim, own: tuple[str, ...]
) -> None:
    run = flocksim(*own, "hardware.fidelity=calibrated")
    assert run.code == 2
    for text in (
        "mine.json: device mine has no calibrated kernels",
        "FOLDER/kernels/MINE.json",
        "hardware.allow_transfer=true takes those of a100_sxm_80gb",
        "hardware.fidelity=roofline",
    ):
        assert text in run.error_line
    assert flocksim(*own, "hardware.fidelity=roofline").code == 0, "the roofline needs no kernels"


def test_with_it_the_result_is_flagged_with_the_donor(
    flocksim: Flocksim, own: tuple[str, ...]
) -> None:
    run = flocksim(*own, "hardware.fidelity=calibrated", "hardware.allow_transfer=true")
    assert run.code == 0
    result = json.loads((run.directory / "result.json").read_text())
    (flag,) = (one for one in result["flags"] if one["flag"] == "extrapolated")
    assert {"decode_attention", "gemm", "prefill_attention", "small_ops"} <= set(flag["kernels"])
    assert flag["devices"] == ["a100_sxm_80gb"]
    assert "of mine were not measured on it but on a100_sxm_80gb, and scaled" in flag["text"]
    kernels = result["provenance"]["hardware"]["kernels"]
    assert kernels["gemm"]["source"].startswith("Transferred from a100_sxm_80gb: ")
    assert "extrapolated: decode_attention" in run.out + run.err


def test_it_gives_what_the_transferred_file_gives(
    flocksim: Flocksim, own: tuple[str, ...], tmp_path: Path
) -> None:
    from experiments.calibrate.command import run_command

    on_the_fly = flocksim(*own, "hardware.fidelity=calibrated", "hardware.allow_transfer=true")
    metrics = json.loads((on_the_fly.directory / "result.json").read_text())["metrics"]
    profile = f"{tmp_path / 'mine.json'}"
    assert run_command(["transfer", "--from", "a100_sxm_80gb", "--to", profile]) == 0
    from_file = flocksim(*own, "hardware.fidelity=calibrated", directory=tmp_path / "second")
    assert json.loads((from_file.directory / "result.json").read_text())["metrics"] == metrics


@pytest.mark.parametrize(
    ("overrides", "why"),
    [
        (("hardware=h20", "hardware.fidelity=calibrated"), "device h20 has kernels"),
        (
            ("hardware=h20", "hardware.fidelity=roofline"),
            "hardware.fidelity=roofline uses no kernels",
        ),
    ],
)
def test_where_it_has_no_effect_it_is_refused(
    flocksim: Flocksim, overrides: tuple[str, ...], why: str
) -> None:
    run = flocksim(*TINY, *overrides, "hardware.allow_transfer=true")
    assert run.code == 2
    assert f"hardware.allow_transfer=true has no effect, for {why}" in run.error_line


def test_it_must_be_true_or_false(flocksim: Flocksim, own: tuple[str, ...]) -> None:
    run = flocksim(*own, "hardware.fidelity=calibrated", "hardware.allow_transfer=h100_sxm")
    assert run.code == 2
    assert "hardware.allow_transfer" in run.error_line


@pytest.mark.parametrize(
    ("name", "donor"),
    [
        ("a100_sxm_40gb", "a100_sxm_80gb"),
        ("h20", "h100_sxm"),
        ("l40s", "a100_sxm_80gb"),
        ("rtx6000_ada", "a100_sxm_80gb"),
    ],
)
def test_a_packaged_profile_that_nobody_measured_is_flagged(
    flocksim: Flocksim, name: str, donor: str
) -> None:
    run = flocksim(*TINY, f"hardware={name}", "hardware.fidelity=calibrated")
    assert run.code == 0
    flags = json.loads((run.directory / "result.json").read_text())["flags"]
    (flag,) = (one for one in flags if one["flag"] == "extrapolated")
    assert flag["devices"] == [donor]
    measured = flocksim(*TINY, f"hardware={donor}", "hardware.fidelity=calibrated")
    flags = json.loads((measured.directory / "result.json").read_text())["flags"]
    assert not any("gemm" in one.get("kernels", ()) for one in flags)
