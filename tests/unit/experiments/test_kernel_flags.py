"""The flag of kernels that nobody measured on the GPU: which they are, and where they come from."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from experiments.results import flags
from hwmodels.calibrated import CalibratedCost
from hwmodels.device import load_profile
from hwmodels.kernels.models import KernelModels
from hwmodels.model_catalogue import load_model

H20 = load_profile("h20")


def flags_with(
    kernels: KernelModels,
    names: list[str],
    flags_of: Callable[[Any], list[dict[str, Any]]] = flags._kernel_flags,
) -> list[dict[str, Any]]:
    """Flags of a deployment with these kernels, of which the named ones price its steps."""
    cost = CalibratedCost(load_profile("a100_sxm_80gb"), load_model("llama3_8b"))
    deployment: Any = SimpleNamespace(
        gpu_cost=cost, device=SimpleNamespace(name="mine", kernels=kernels)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CalibratedCost, "kernels_in_use", property(lambda _: names))
        return flags_of(deployment)


def test_measured_kernels_need_no_flag() -> None:
    assert flags_with(load_profile("a100_sxm_80gb").kernels, ["gemm", "moe"]) == []


def test_one_donor_is_named_once() -> None:
    (flag,) = flags_with(H20.kernels, ["moe", "gemm"])
    assert (flag["kernels"], flag["devices"]) == (["gemm", "moe"], ["h100_sxm"])
    assert flag["text"] == (
        "extrapolated: gemm, moe of mine were not measured on it but on h100_sxm, and scaled"
    )


def test_several_donors_are_named_with_their_kernels() -> None:
    (flag,) = flags_with(H20.kernels, ["gemm", "l2"])
    assert flag["devices"] == ["h100_sxm", "h200_sxm"]
    assert flag["text"].endswith("(gemm scaled from h100_sxm, l2 scaled from h200_sxm)")


def test_a_kernel_that_was_not_scaled_from_a_device_is_not_said_to_be() -> None:
    records = dict(H20.kernels.provenance)
    records["moe"] = replace(records["moe"], source="assumed")
    (flag,) = flags_with(replace(H20.kernels, provenance=records), ["gemm", "moe"])
    assert flag["text"].endswith("were not measured on it (gemm scaled from h100_sxm)")
    (flag,) = flags_with(replace(H20.kernels, provenance=records), ["moe"])
    assert flag["devices"] == []
    assert flag["text"].endswith("moe of mine was not measured on it")


def test_a_kernel_whose_form_does_not_describe_its_rows_is_flagged() -> None:
    kernels = load_profile("a100_sxm_80gb").kernels
    assert flags_with(kernels, ["gemm", "moe"], flags._fit_flags) == []
    records = dict(kernels.provenance)
    records["gemm"] = replace(records["gemm"], heldout_mape=787.99)
    records["moe"] = replace(records["moe"], heldout_mape=0.3)
    poor = replace(kernels, provenance=records)
    (flag,) = flags_with(poor, ["gemm", "moe"], flags._fit_flags)
    assert (flag["flag"], flag["kernels"]) == ("poorly_fitted", ["gemm"])
    assert flag["text"].endswith("of mine: error on held-out shapes gemm 78,799 %")
    assert flags_with(poor, ["moe"], flags._fit_flags) == []
