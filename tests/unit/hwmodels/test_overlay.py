"""Overlay profiles: a profile with some constants changed, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hwmodels.device import CONSTANT_UNITS, load_profile
from hwmodels.overlay import Overlay, overlay_of
from sim.errors import ConfigError

BASE = "a100_sxm_80gb"

OVERLAY = Overlay(
    base=BASE,
    name="mine",
    date="2026-01-02",
    values={"step_overhead_s": 0.0025},
    sources={"step_overhead_s": "fitted"},
    error_before={"tpot_ratio": 0.2},
    error_after={"tpot_ratio": 0.02},
    num_requests_fit=50,
    num_requests_heldout=50,
    fidelity="roofline",
)


def write(folder: Path, **changed: Any) -> Path:
    """An overlay's file; keys given as ... are left out."""
    record = {**OVERLAY.to_json(), **changed}
    path = folder / "overlay.json"
    path.write_text(json.dumps({name: value for name, value in record.items() if value is not ...}))
    return path


def test_an_overlay_comes_back_from_its_file(tmp_path: Path) -> None:
    path = write(tmp_path)
    assert overlay_of(path, json.loads(path.read_text())) == OVERLAY
    bare = replace(
        OVERLAY,
        error_before=None,
        error_after=None,
        num_requests_fit=None,
        num_requests_heldout=None,
        fidelity=None,
    )
    assert set(bare.to_json()) == {"overlay_of", "name", "date", "constants"}
    assert overlay_of(path, bare.to_json()) == bare


def test_the_device_has_the_changed_constants_and_all_others_of_its_base(tmp_path: Path) -> None:
    base, found = load_profile(BASE), load_profile(write(tmp_path))
    assert found.step_overhead_s == 0.0025
    assert replace(found, step_overhead_s=base.step_overhead_s) == base
    assert found.sources["step_overhead_s"] == "fitted"
    assert found.sources["num_sms"] == base.sources["num_sms"]
    assert (found.title, found.date) == (f"{base.title}, overlay mine", "2026-01-02")
    assert found.kernels is base.kernels
    assert (base.fitted_fidelity, found.fitted_fidelity) == ("", "roofline")


def test_every_constant_can_be_changed(tmp_path: Path) -> None:
    base = load_profile(BASE)
    values = {key: getattr(base, key) for key in CONSTANT_UNITS}
    overlay = replace(OVERLAY, values=values, sources=dict.fromkeys(values, "the same"))
    path = tmp_path / "all.json"
    path.write_text(json.dumps(overlay.to_json()))
    assert load_profile(path) == base


def test_a_base_of_the_users_own_is_found_from_the_overlays_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = json.loads(Path(load_profile_file()).read_text())
    own["name"] = "own_gpu"
    (tmp_path / "gpus").mkdir()
    (tmp_path / "fits").mkdir()
    (tmp_path / "gpus" / "own.json").write_text(json.dumps(own))
    path = write(tmp_path / "fits", overlay_of="../gpus/own.json")
    monkeypatch.chdir("/")
    assert load_profile(path).name == "own_gpu"


def load_profile_file() -> str:
    from importlib.resources import files

    return str(files("hwmodels") / "profiles" / f"{BASE}.json")


def test_an_overlay_of_an_overlay_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    record = {**OVERLAY.to_json(), "overlay_of": "./overlay.json"}
    path = tmp_path / "second.json"
    path.write_text(json.dumps(record))
    with pytest.raises(ConfigError, match="is an overlay itself; name the profile below it"):
        load_profile(path)


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"overlay_of": "a100"}, "unknown hardware profile 'a100'"),
        ({"overlay_of": "none.json"}, "none.json: cannot read the file"),
        ({"overlay_of": 3}, "overlay_of: must be a text"),
        ({"name": ...}, "missing key name"),
        ({"title": "x"}, "unknown key title"),
        ({"constants": {}}, "must hold at least one of num_sms"),
        ({"constants": {"speed": {}}}, "unknown key speed; allowed: num_sms"),
        (
            {"constants": {"step_overhead_s": {"value": 1, "unit": "ms", "source": "x"}}},
            "unit must be 's', found 'ms'",
        ),
        (
            {"constants": {"step_overhead_s": {"value": -1, "unit": "s", "source": "x"}}},
            "must be a positive number",
        ),
        (
            {"constants": {"step_overhead_s": {"value": 1, "unit": "s"}}},
            "missing key source",
        ),
        ({"error_before": 0.2}, "error_before: must be an object"),
        ({"error_after": {"tpot_ratio": "low"}}, "tpot_ratio: must be a number from 0"),
        ({"error_after": {"tpot_ratio": True}}, "tpot_ratio: must be a number from 0"),
        ({"num_requests_fit": 1.5}, "num_requests_fit: must be a whole number"),
        ({"num_requests_heldout": -1}, "num_requests_heldout: must be a whole number"),
    ],
)
def test_a_mistake_is_one_line_with_the_file(
    tmp_path: Path, changed: dict[str, Any], line: str
) -> None:
    path = write(tmp_path, **changed)
    with pytest.raises(ConfigError) as caught:
        load_profile(path)
    assert line in str(caught.value)
    assert str(caught.value).count("\n") == 0
