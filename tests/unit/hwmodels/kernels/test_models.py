"""Files of kernel models: round trip, and one clear line for every mistake."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hwmodels.kernels import KernelModels, available_kernels, load_kernels
from hwmodels.kernels.models import KERNEL_CLASSES
from hwmodels.kernels.packed import PackedModel
from hwmodels.kernels.parameters import parameter_names
from hwmodels.kernels.shared_prefix import SharedPrefixModel
from sim.errors import ConfigError
from tests.unit.hwmodels.kernels.parameter_sets import (
    A100_DECODE,
    A100_GEMM,
    A100_L2,
    A100_PREFILL,
    A100_TWO_TILES,
    a100_kernels,
    provenance_of,
)

SHARED = SharedPrefixModel(
    hbm_bytes_per_s=1750e9,
    launch_s=12e-6,
    p_norm=3.6,
    flash_pat_gqa_bytes_per_s=2945e9,
    flash_pat_mha_bytes_per_s=2556e9,
    flashinfer_gqa_bytes_per_s=4610e9,
    flashinfer_mha_bytes_per_s=5627e9,
    cta_slots=216,
    drift_tokens=128.0,
    packed=PackedModel(
        launch_s=12.15e-6,
        hbm_bytes_per_s=1750e9,
        flops_per_s=165.2e12,
        p_norm=1.68,
        merge_bytes_per_s=3121e9,
    ),
    l2=A100_L2,
    decode_attention=A100_DECODE,
    prefill_attention=A100_PREFILL,
)


def record() -> Any:
    """A valid file as JSON values."""
    return json.loads(json.dumps(a100_kernels().to_json()))


def refused(changed: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        KernelModels.from_json(changed, "mine.json")
    assert "\n" not in str(caught.value)


def test_models_survive_a_file(tmp_path: Path) -> None:
    models = a100_kernels(gemm=A100_TWO_TILES)
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(models.to_json()), encoding="utf-8")
    assert load_kernels(path) == models
    assert load_kernels(str(path)) == models


def test_values_count_as_measured_unless_said_otherwise() -> None:
    assert provenance_of(A100_GEMM).to_json()["is_extrapolated"] is False
    changed = record()
    changed["kernels"]["gemm"]["is_extrapolated"] = True
    assert KernelModels.from_json(changed).provenance["gemm"].is_extrapolated


def test_a_file_from_before_there_were_mixed_steps_leaves_them_out() -> None:
    values: Any = a100_kernels(mixed_attention=None).to_json()
    assert values["kernels"].pop("mixed_attention") is None
    assert KernelModels.from_json(values).mixed_attention is None


def test_a_kernel_that_is_not_known_is_null() -> None:
    models = a100_kernels(moe=None, nccl=None)
    values: Any = models.to_json()
    assert values["kernels"]["moe"] is None
    assert KernelModels.from_json(values) == models


def test_a_model_inside_another_is_stated_once() -> None:
    provenance = provenance_of(
        SHARED,
        standard_errors=dict.fromkeys(
            name
            for name in parameter_names(SHARED)
            if name.split(".")[0] not in ("l2", "decode_attention", "prefill_attention")
        ),
    )
    models = a100_kernels()
    models = replace(
        models, shared_prefix=SHARED, provenance={**models.provenance, "shared_prefix": provenance}
    )
    values: Any = models.to_json()
    stated = values["kernels"]["shared_prefix"]["values"]
    assert stated["packed"]["p_norm"] == 1.68
    assert "l2" not in stated
    again = KernelModels.from_json(json.loads(json.dumps(values)))
    assert again == models
    assert again.shared_prefix is not None
    assert again.shared_prefix.decode_attention == A100_DECODE


def test_every_field_of_a_kernel_has_a_class() -> None:
    fields = set(KernelModels.__dataclass_fields__) - {"device", "date", "inputs", "provenance"}
    assert fields == set(KERNEL_CLASSES)


def test_nested_parameters_have_dotted_names() -> None:
    names = ["num_sms", "tiles.0.m", "tiles.0.n", "tiles.0.efficiency", "wave_ceil_weight"]
    assert parameter_names(A100_GEMM)[:5] == names
    assert "tiles.1.efficiency" in parameter_names(A100_TWO_TILES)


@pytest.mark.parametrize("key", ["device", "date", "inputs", "kernels"])
def test_missing_and_unknown_keys_of_the_file(key: str) -> None:
    changed = record()
    del changed[key]
    refused(changed, f"^mine.json: missing key {key}; allowed: device, date, inputs, kernels$")
    refused(record() | {"note": 1}, "^mine.json: unknown key note; allowed: ")


def test_missing_and_unknown_kernels_and_parameters() -> None:
    changed = record()
    del changed["kernels"]["l2"]
    refused(changed, "^mine.json: kernels: missing key l2; allowed: gemm, decode")
    changed = record()
    changed["kernels"]["gem"] = None
    refused(changed, "^mine.json: kernels: unknown key gem; ")
    changed = record()
    del changed["kernels"]["gemm"]["values"]["launch_s"]
    refused(changed, "^mine.json: gemm: values: missing key launch_s; ")
    changed = record()
    changed["kernels"]["gemm"]["values"]["tiles"][0]["k"] = 64
    refused(changed, "^mine.json: gemm: values: tiles: 0: unknown key k; allowed: m, n, eff")
    changed = record()
    del changed["kernels"]["moe"]["num_rows"]
    refused(changed, "^mine.json: moe: missing key num_rows; allowed: values, standard_errors, ")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("launch_s", 3.69, "gemm: values: GemmModel: launch_s must be from 0 to 1, found 3.69"),
        ("hbm_bytes_per_s", 1726.0, "hbm_bytes_per_s must be from 1e.06 to 1e.18, found 1726"),
        ("p_norm", 0.5, "p_norm must be from 1 to 100, found 0.5"),
        ("p_norm", "2", "gemm: values: p_norm: must be a number, found '2'"),
        ("p_norm", True, "gemm: values: p_norm: must be a number, found True"),
        ("p_norm", float("nan"), "p_norm must be from 1 to 100, found nan"),
        ("p_norm", None, "p_norm: must be a number, found None"),
        ("num_sms", 108.5, "num_sms: must be a whole number, found 108.5"),
        ("tiles", 64, "tiles: must be a list, found 64"),
        ("tiles", [64], "tiles: 0: must be an object, found 64"),
        ("tiles", [], "GemmModel: tiles must hold at least one tile"),
    ],
)
def test_mistaken_parameters(name: str, value: object, message: str) -> None:
    changed = record()
    changed["kernels"]["gemm"]["values"][name] = value
    refused(changed, f"^mine.json: .*{message}")


def test_switches_and_limits_that_do_not_apply() -> None:
    changed = record()
    changed["kernels"]["decode_attention"]["values"]["can_split_mha"] = 1
    refused(changed, "can_split_mha: must be true or false, found 1")
    changed["kernels"]["decode_attention"]["values"] |= {
        "can_split_mha": True,
        "cta_gqa_bytes_per_s": None,
    }
    model = KernelModels.from_json(changed).decode_attention
    assert model is not None
    assert model.cta_gqa_bytes_per_s is None


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("num_rows", -1, "num_rows must be a whole number >= 0, found -1"),
        ("num_rows", 1.0, "num_rows must be a whole number >= 0, found 1.0"),
        ("is_extrapolated", 0, "is_extrapolated must be true or false, found 0"),
        ("heldout_mape", -0.1, "heldout_mape: must be null or a number >= 0, found -0.1"),
        ("heldout_mape", "7 %", "heldout_mape: must be null or a number >= 0, found '7 %'"),
        ("source", " ", "source: must be a text that is not empty"),
        ("valid", {"m": 5}, r"valid: m: must be \[lowest, highest\], found 5"),
        ("valid", {"m": [2, 1]}, r"valid: m: must be \[lowest, highest\], found \[2, 1\]"),
        ("valid", {"m": [1, "2"]}, r"valid: m: must be \[lowest, highest\]"),
        ("standard_errors", {"launch_s": 0.0}, "standard_errors: missing key num_sms, tiles.0.m"),
    ],
)
def test_mistaken_provenance(key: str, value: object, message: str) -> None:
    changed = record()
    changed["kernels"]["gemm"][key] = value
    refused(changed, message)


def test_mistaken_date_and_inputs() -> None:
    refused(record() | {"date": "yesterday"}, "date must be YYYY-MM-DD, found 'yesterday'")
    refused(record() | {"inputs": {"a.csv": 5}}, "inputs: a.csv: must be a text")


def test_a_model_without_provenance_is_not_written() -> None:
    with pytest.raises(ConfigError, match="mine: gemm has no provenance"):
        KernelModels(device="mine", gemm=A100_GEMM).to_json()
    with pytest.raises(ConfigError, match="provenance of 'moe', which is no kernel of this device"):
        KernelModels(device="mine", provenance={"moe": provenance_of(A100_GEMM)})


def test_unknown_names_list_the_valid_ones() -> None:
    with pytest.raises(ConfigError, match="unknown device with calibrated kernels 'a100'"):
        load_kernels("a100")


@pytest.mark.parametrize("name", available_kernels())
def test_packaged_kernels_load_and_belong_to_their_device(name: str) -> None:
    models = load_kernels(name)
    assert models.device == name
    assert all(record.source for record in models.provenance.values())
