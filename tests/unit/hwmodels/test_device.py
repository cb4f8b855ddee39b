"""Profiles: published constants, and one clear line for every mistake in a file."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hwmodels.device import (
    CONSTANT_UNITS,
    OPTIONAL_CONSTANTS,
    available_profiles,
    load_profile,
)
from sim.errors import ConfigError
from sim.units import MIB

Profile = dict[str, object]


def a100_with(constant: str, **changes: object) -> Profile:
    """A valid profile as a JSON record, one of its constants changed."""
    device = load_profile("a100_sxm_80gb")
    constants = {
        key: {"value": getattr(device, key), "unit": unit, "source": "test"}
        for key, unit in CONSTANT_UNITS.items()
    }
    constants[constant] |= changes
    return {"name": "mine", "title": "Mine", "date": "2026-01-01", "constants": constants}


def written(folder: Path, record: object) -> Path:
    path = folder / "mine.json"
    path.write_text(json.dumps(record), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "num_sms", "peak_flops_per_s", "hbm_bytes_per_s", "l2_mib"),
    [
        ("a100_sxm_80gb", 108, 312e12, 2.039e12, 40),
        ("h100_sxm", 132, 989.4e12, 3.35e12, 50),
        ("h200_sxm", 132, 989.4e12, 4.8e12, 60),
        ("a100_sxm_40gb", 108, 312e12, 1.555e12, 40),
        ("h20", 78, 148e12, 4.0e12, 60),
        ("l40s", 142, 362e12, 0.864e12, 96),
        ("rtx6000_ada", 142, 364.2e12, 0.960e12, 96),
    ],
)
def test_packaged_profile_states_the_vendors_peaks(
    name: str, num_sms: int, peak_flops_per_s: float, hbm_bytes_per_s: float, l2_mib: int
) -> None:
    device = load_profile(name)
    assert device.name == name
    assert device.num_sms == num_sms
    assert device.peak_flops_per_s == peak_flops_per_s
    assert device.hbm_bytes_per_s == hbm_bytes_per_s
    assert device.l2_bytes == l2_mib * MIB


@pytest.mark.parametrize(
    ("name", "sold_bytes"),
    [
        ("a100_sxm_40gb", 40 * 1024**3),
        ("a100_sxm_80gb", 80 * 1024**3),
        ("h100_sxm", 80 * 1024**3),
        ("h20", 96 * 1024**3),
        ("h200_sxm", 141 * 1024**3),
        ("rtx6000_ada", 48 * 1024**3),
    ],
)
def test_reported_memory_is_a_little_less_than_on_the_box(name: str, sold_bytes: int) -> None:
    ratio = load_profile(name).hbm_capacity_bytes / sold_bytes
    assert 0.98 < ratio < 1.0


def test_ecc_takes_a_sixteenth_of_the_memory_of_an_l40s() -> None:
    ratio = load_profile("l40s").hbm_capacity_bytes / (48 * 1024**3)
    assert 0.98 * 15 / 16 < ratio < 15 / 16


@pytest.mark.parametrize(
    ("name", "link_bytes_per_s"), [("a100_sxm_40gb", 300e9), ("h20", 450e9), ("l40s", 32e9)]
)
def test_links_are_those_of_the_datasheet_in_one_direction(
    name: str, link_bytes_per_s: float
) -> None:
    assert load_profile(name).nvlink_bytes_per_s == link_bytes_per_s


@pytest.mark.parametrize("name", ["l40s", "rtx6000_ada"])
def test_without_nvlink_peers_meet_over_pcie_and_the_profile_says_so(name: str) -> None:
    device = load_profile(name)
    assert device.nvlink_bytes_per_s == device.pcie_bytes_per_s == 32e9
    assert "no NVLink" in device.sources["nvlink_bytes_per_s"]


@pytest.mark.parametrize("name", available_profiles())
def test_every_constant_has_a_source(name: str) -> None:
    device = load_profile(name)
    assert set(device.sources) == set(CONSTANT_UNITS) - set(OPTIONAL_CONSTANTS)
    assert all(len(text) > 10 for text in device.sources.values())
    assert device.title
    assert device.date.startswith("20")


@pytest.mark.parametrize("name", available_profiles())
def test_attainable_rates_lie_below_the_peaks(name: str) -> None:
    device = load_profile(name)
    assert 0.5 < device.attainable_flops_per_s / device.peak_flops_per_s < 1
    assert 0.5 < device.attainable_hbm_bytes_per_s / device.hbm_bytes_per_s < 1
    assert 0.3 < device.attainable_nvlink_bytes_per_s / device.nvlink_bytes_per_s < 1


def test_own_profile_is_read_by_path(tmp_path: Path) -> None:
    path = written(tmp_path, a100_with("num_sms", value=64))
    expected = replace(load_profile("a100_sxm_80gb"), name="mine", num_sms=64)
    assert load_profile(path) == expected
    assert load_profile(str(path)) == expected


def test_unknown_name_lists_the_valid_ones_and_the_closest() -> None:
    with pytest.raises(ConfigError) as caught:
        load_profile("a100_sxm_80g")
    message = str(caught.value)
    assert "did you mean a100_sxm_80gb?" in message
    assert "h100_sxm, h20, h200_sxm" in message
    assert "\n" not in message


@pytest.mark.parametrize("value", [0, -5, 1.5, "108", True, None, 10**400])
def test_count_must_be_a_positive_whole_number(tmp_path: Path, value: object) -> None:
    path = written(tmp_path, a100_with("num_sms", value=value))
    with pytest.raises(ConfigError, match="num_sms: value must be a positive whole number"):
        load_profile(path)


@pytest.mark.parametrize("value", [0, -1e12, float("inf"), float("nan"), "fast"])
def test_rate_must_be_positive_and_finite(tmp_path: Path, value: object) -> None:
    path = written(tmp_path, a100_with("hbm_bytes_per_s", value=value))
    with pytest.raises(ConfigError, match="hbm_bytes_per_s: value must be a positive number"):
        load_profile(path)


@pytest.mark.parametrize("value", [0, 1.01, 81.3])
def test_efficiency_must_be_a_ratio(tmp_path: Path, value: object) -> None:
    path = written(tmp_path, a100_with("hbm_efficiency_ratio", value=value))
    with pytest.raises(ConfigError, match="above 0 and at most 1"):
        load_profile(path)


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("num_sms", 10**7, "1 to 1e+06 count"),
        ("peak_flops_per_s", 312.0, "1e+06 to 1e+24 flops/s"),
        ("hbm_bytes_per_s", 2039.0, "1e+06 to 1e+24 bytes/s"),
        ("pcie_bytes_per_s", 1e-300, "1e+06 to 1e+24 bytes/s"),
        ("hbm_capacity_bytes", 10**20, "1 to 1e+18 bytes"),
        ("hbm_efficiency_ratio", 1e-4, "0.001 to 1 ratio"),
        ("step_overhead_s", 1e-300, "1e-12 to 10 s"),
        ("step_overhead_request_s", 19.0, "0 to 1 s/request"),
        ("collective_latency_s", 25.0, "1e-12 to 10 s"),
    ],
)
def test_absurd_constant_is_refused_with_its_bounds(
    tmp_path: Path, key: str, value: float, allowed: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_profile(written(tmp_path, a100_with(key, value=value)))
    assert f"{key}: value must be from {allowed}, found {value!r}" in str(caught.value)


def test_device_built_in_code_is_checked_too() -> None:
    with pytest.raises(ConfigError, match="step_overhead_s must be a positive number, found 0"):
        replace(load_profile("h100_sxm"), step_overhead_s=0.0)


def test_host_time_per_request_may_be_left_out_and_is_none_then(tmp_path: Path) -> None:
    record = a100_with("step_overhead_request_s", value=19e-6)
    assert load_profile(written(tmp_path, record)).step_overhead_request_s == 19e-6
    constants = record["constants"]
    assert isinstance(constants, dict)
    del constants["step_overhead_request_s"]
    device = load_profile(written(tmp_path, record))
    assert device.step_overhead_request_s == 0
    assert "step_overhead_request_s" not in device.sources
    stated = a100_with("step_overhead_request_s", value=0)
    assert load_profile(written(tmp_path, stated)).step_overhead_request_s == 0


@pytest.mark.parametrize("value", [-1e-6, float("nan"), float("inf"), "0.1", True])
def test_host_time_per_request_is_a_number_of_at_least_0(tmp_path: Path, value: object) -> None:
    path = written(tmp_path, a100_with("step_overhead_request_s", value=value))
    with pytest.raises(ConfigError, match="value must be a number of at least 0"):
        load_profile(path)


def test_wrong_unit_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, a100_with("l2_bytes", unit="MiB"))
    with pytest.raises(ConfigError, match="l2_bytes: unit must be 'bytes', found 'MiB'"):
        load_profile(path)


def test_missing_and_unknown_constants_are_named_with_the_allowed_ones(tmp_path: Path) -> None:
    record = a100_with("num_sms")
    constants = record["constants"]
    assert isinstance(constants, dict)
    constants["num_sm"] = constants.pop("num_sms")
    with pytest.raises(ConfigError) as caught:
        load_profile(written(tmp_path, record))
    message = str(caught.value)
    assert "missing key num_sms" in message
    assert "unknown key num_sm;" in message
    assert "allowed: num_sms, peak_flops_per_s" in message
    assert "\n" not in message


def test_unknown_key_beside_a_value_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown key note; allowed: value, unit, source"):
        load_profile(written(tmp_path, a100_with("num_sms", note="?")))


def test_empty_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="num_sms: source: must be a text that is not empty"):
        load_profile(written(tmp_path, a100_with("num_sms", source=" ")))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "not valid JSON: .* line 1 column 2"),
        ("[1]", "must hold one JSON object, found list"),
        ('{"name": "a", "name": "b"}', "key name appears twice"),
        ('{"name": ' + "9" * 5000 + "}", "not valid JSON: a number of too many digits"),
        ('{"name": ' + "[" * 200_000, "not valid JSON: too deep"),
        ('{"name": "\\ud83d"}', r"text with \\ud83d, half of a character"),
        ('{"\\udc00": 1}', r"text with \\udc00, half of a character"),
        ('{"name": "a"}', "missing key title, date, constants"),
    ],
)
def test_broken_file_is_one_clear_line(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "mine.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=complaint) as caught:
        load_profile(path)
    assert str(caught.value).startswith(str(path))


def test_messages_stay_short_and_paths_with_a_nul_are_one_line(tmp_path: Path) -> None:
    path = written(tmp_path, a100_with("num_sms", value=-(10**4000)))
    with pytest.raises(ConfigError, match="positive whole number") as caught:
        load_profile(path)
    assert len(str(caught.value)) < 300
    with pytest.raises(ConfigError, match="cannot read the file"):
        load_profile("a\0/b.json")


def test_absent_file_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the file: No such file"):
        load_profile(tmp_path / "none.json")


def test_file_that_is_not_text_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not a JSON text in UTF-8"):
        load_profile(path)
