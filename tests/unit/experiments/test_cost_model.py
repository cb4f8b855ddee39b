"""The ladder of fidelity: which cost model a configuration gives, and what it refuses."""

import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from experiments.composing import compose_config
from experiments.deployment import build_deployment
from experiments.schema.job import read_job
from hwmodels.attention.choice import KernelChoice
from hwmodels.calibrated import CalibratedCost
from hwmodels.roofline import RooflineCost
from sim.errors import ConfigError
from sim.interfaces import CostModel


def cost_of(*overrides: str) -> CostModel:
    return build_deployment(read_job(compose_config(overrides)[0])).spec.cost


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (
            ("kernel=packed", "hardware.fidelity=roofline"),
            "kernel.name=packed has no effect: hardware.fidelity=roofline knows no kernels; "
            "choose calibrated_l2 or leave it out",
        ),
        (
            ("kernel.family=padded", "hardware.fidelity=roofline"),
            "kernel.family=padded has no effect: hardware.fidelity=roofline knows no kernels; "
            "choose calibrated_l2 or leave it out",
        ),
        (
            ("kernel.member_order=contiguous", "hardware.fidelity=roofline"),
            "kernel.member_order=contiguous has no effect: "
            "hardware.fidelity=roofline knows no kernels; "
            "choose calibrated_l2 or leave it out",
        ),
        (
            ("kernel.mixed_batch=separate", "hardware.fidelity=roofline"),
            "kernel.mixed_batch=separate has no effect: "
            "hardware.fidelity=roofline knows no kernels; "
            "choose calibrated_l2 or leave it out",
        ),
        (
            ("kernel.member_order=contiguous", "hardware.fidelity=calibrated"),
            "kernel.member_order=contiguous has no effect: hardware.fidelity=calibrated has no L2",
        ),
        (
            (
                "kernel=packed",
                "kernel.member_order=contiguous",
                "hardware.fidelity=calibrated_l2",
            ),
            "kernel.member_order=contiguous has no effect: "
            "kernel.name=packed reads every node once",
        ),
        (
            ("kernel.member_order=interleaved", "hardware.fidelity=calibrated"),
            "kernel.member_order=interleaved has no effect: hardware.fidelity=calibrated has no L2",
        ),
        (
            ("kernel=flash", "engine=sglang", "kernel.mixed_batch=separate"),
            "kernel.mixed_batch=separate has no effect: this engine never decodes and prefills in "
            "one step",
        ),
        (
            ("kernel=flashinfer", "kernel.family=padded", "hardware.fidelity=calibrated"),
            "kernel.family=padded: kernel.name=flashinfer has no such variant",
        ),
        (
            ("kernel.name=fa4",),
            "kernel.name must be one of flash, flash_pat, flash_cascade, flashinfer, packed, "
            "found 'fa4'",
        ),
    ],
)
def test_an_option_of_the_kernel_without_effect_is_refused_in_one_line(
    overrides: tuple[str, ...], line: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        cost_of(*overrides)
    assert str(caught.value) == line


def test_a_missing_key_of_the_kernel_is_named() -> None:
    config = compose_config()[0]
    del config["kernel"]["family"]
    with pytest.raises(ConfigError, match=r"^kernel\.family is missing$"):
        read_job(config)


def test_the_roofline_takes_the_kernel_that_is_the_default() -> None:
    cost = cost_of("hardware.fidelity=roofline")
    assert type(cost) is RooflineCost
    assert not cost.uses_prefix_tree


@pytest.mark.parametrize(
    ("fidelity", "kernel", "uses_l2", "uses_tree"),
    [
        ("calibrated", "flash", False, False),
        ("calibrated", "flash_cascade", False, True),
        ("calibrated", "flashinfer", False, False),
        ("calibrated", "packed", False, True),
        ("calibrated_l2", "flash", True, True),
        ("calibrated_l2", "flash_pat", True, True),
        ("calibrated_l2", "packed", False, True),
    ],
)
def test_the_fidelity_says_whether_l2_counts(
    fidelity: str, kernel: str, uses_l2: bool, uses_tree: bool
) -> None:
    cost = cost_of(f"hardware.fidelity={fidelity}", f"kernel={kernel}")
    assert type(cost) is CalibratedCost
    assert (cost.kernel.name, cost.uses_l2, cost.uses_prefix_tree) == (kernel, uses_l2, uses_tree)


@pytest.mark.parametrize(
    ("overrides", "name", "mixed_batch"),
    [
        ((), "flash", "fused_varlen"),
        (("kernel=flash_cascade",), "flash_cascade", "fused_varlen"),
        (("kernel=packed",), "packed", "separate"),
        (("engine=sglang",), "flashinfer", "separate"),
        (("engine=sglang", "kernel=flash"), "flash", "separate"),
    ],
)
def test_the_engine_decides_about_what_is_not_given(
    overrides: tuple[str, ...], name: str, mixed_batch: str
) -> None:
    cost = cost_of("hardware.fidelity=calibrated_l2", *overrides)
    assert isinstance(cost, CalibratedCost)
    assert (cost.kernel.name, cost.kernel.mixed_batch) == (name, mixed_batch)
    assert (cost.kernel.family, cost.kernel.member_order) == ("split_kv", "interleaved")


def test_the_options_reach_the_cost_model() -> None:
    cost = cost_of(
        "hardware.fidelity=calibrated_l2",
        "kernel.family=per_head",
        "kernel.member_order=contiguous",
        "kernel.mixed_batch=separate",
    )
    assert isinstance(cost, CalibratedCost)
    assert cost.kernel == KernelChoice(
        name="flash", family="per_head", member_order="contiguous", mixed_batch="separate"
    )


def test_the_cascade_counts_in_the_blocks_of_the_engine() -> None:
    """1000 common tokens are 62 blocks of 16, but 15 of 64."""
    from tests.unit.hwmodels.attention.batches import one_group, step_s

    batch, found = one_group(40, 1000, 100), []
    for block_tokens in (16, 64):
        cost = cost_of(
            "hardware.fidelity=calibrated",
            "kernel=flash_cascade",
            f"engine.block_tokens={block_tokens}",
        )
        assert isinstance(cost, CalibratedCost)
        found.append(step_s(cost.attention, batch))
    assert found[0] < found[1]


def test_a_size_without_an_all_reduce_is_told_by_the_name_of_its_option(tmp_path: Path) -> None:
    def measure_sixteen_instead(kernels: Any) -> None:
        kernels["all_reduce"]["values"]["groups"][2]["num_gpus"] = 16

    profile = own_profile(tmp_path, measure_sixteen_instead)
    own = ("hardware=from_file", f"hardware.path={profile}")
    with pytest.raises(ConfigError) as caught:
        cost_of(*own, "cluster.tensor_parallel=8")
    line = "cluster.tensor_parallel must be 1, 2, 4, 16 for an all-reduce, found 8"
    assert str(caught.value) == line
    cost_of(*own, "cluster.tensor_parallel=4")


@pytest.mark.parametrize(
    ("kernel", "remedy"),
    [
        ("mixed_attention", "kernel.mixed_batch=separate"),
        ("l2", "hardware.fidelity=calibrated"),
        ("shared_prefix", "hardware.fidelity=calibrated"),
    ],
)
def test_a_kernel_that_a_profile_lacks_is_told_with_what_does_without_it(
    tmp_path: Path, kernel: str, remedy: str
) -> None:
    profile = own_profile(tmp_path, lambda kernels: kernels.update({kernel: None}))
    own = ("hardware=from_file", f"hardware.path={profile}")
    with pytest.raises(ConfigError) as caught:
        cost_of(*own)
    text = str(caught.value)
    kernels = profile.parent / "kernels" / profile.name
    assert text.startswith(f"device mine has no calibrated {kernel} kernel; ")
    assert f"{kernels} lacks it: {remedy}" in text
    assert "flocksim-calibrate transfer" in text
    assert "needs FOLDER" not in text, "the file is there"
    cost_of(*own, remedy)


def own_profile(folder: Path, change: Callable[[Any], object]) -> Path:
    """An A100 by another name, with other kernels."""
    packaged = files("hwmodels") / "profiles"
    device = json.loads((packaged / "a100_sxm_80gb.json").read_text())
    kernels = json.loads((packaged / "kernels" / "a100_sxm_80gb.json").read_text())
    kernels["device"] = "mine"
    change(kernels["kernels"])
    profile = folder / "gpu.json"
    profile.write_text(json.dumps(device | {"name": "mine"}))
    (folder / "kernels").mkdir()
    (folder / "kernels" / "gpu.json").write_text(json.dumps(kernels))
    return profile
