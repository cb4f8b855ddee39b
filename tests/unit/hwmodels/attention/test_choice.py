"""Which kernels there are, which options mean something with them, and what each of them needs."""

import pickle
from dataclasses import replace
from typing import Any

import pytest

from hwmodels.attention.build import attention_pricer, kernels_needed
from hwmodels.attention.choice import KernelChoice
from hwmodels.attention.flash import FlashPricer
from hwmodels.attention.oblivious import ObliviousPricer
from hwmodels.attention.packed_pricer import PackedPricer
from hwmodels.calibrated import CalibratedCost
from hwmodels.device import DeviceSpec, load_profile
from hwmodels.kernels import KernelModels
from hwmodels.model_catalogue import load_model
from sim.errors import ConfigError
from tests.unit.hwmodels.attention.batches import CHOICES, gpu, pricer_of, random_batch, shape_of


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            {"name": "fa2"},
            "kernel.name must be one of flash, flash_pat, flash_cascade, flashinfer, packed, "
            "found 'fa2'",
        ),
        (
            {"family": "split"},
            "kernel.family must be one of split_kv, per_head, padded, found 'split'",
        ),
        (
            {"member_order": None},
            "kernel.member_order must be one of interleaved, contiguous, found None",
        ),
        (
            {"mixed_batch": ["separate"]},
            "kernel.mixed_batch must be one of fused_varlen, separate, found ['separate']",
        ),
        (
            {"name": "flashinfer", "family": "padded"},
            "kernel.family=padded: kernel.name=flashinfer has no such variant",
        ),
        (
            {"name": "packed", "family": "per_head"},
            "kernel.family=per_head: kernel.name=packed has no such variant",
        ),
        (
            {"name": "flash_pat", "mixed_batch": "fused_varlen"},
            "kernel.mixed_batch=fused_varlen: kernel.name=flash_pat runs them apart",
        ),
    ],
)
def test_an_option_that_means_nothing_is_refused_in_one_line(
    options: dict[str, Any], line: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        KernelChoice(**options)
    assert str(caught.value) == line


def test_the_kernels_that_the_decode_form_prices_and_those_that_read_nodes_once() -> None:
    names = ("flash", "flash_cascade", "flash_pat", "flashinfer", "packed")
    choices = [KernelChoice(name=name) for name in names]  # type: ignore[arg-type]
    assert [c.has_decode_form for c in choices] == [True, True, False, False, False]
    assert [c.reads_nodes_once for c in choices] == [False, True, False, False, True]


@pytest.mark.parametrize(
    ("options", "uses_l2", "names"),
    [
        ({}, False, {"decode_attention"}),
        ({}, True, {"decode_attention", "shared_prefix", "l2"}),
        ({"mixed_batch": "fused_varlen"}, False, {"decode_attention", "mixed_attention"}),
        ({"name": "flash_cascade"}, False, {"decode_attention", "shared_prefix"}),
        ({"name": "flash_cascade"}, True, {"decode_attention", "shared_prefix", "l2"}),
        ({"name": "flashinfer"}, False, {"shared_prefix"}),
        ({"name": "flash_pat"}, True, {"shared_prefix", "l2"}),
        ({"name": "packed"}, True, {"shared_prefix"}),
    ],
)
def test_a_kernel_needs_what_it_reads_and_no_more(
    options: dict[str, Any], uses_l2: bool, names: set[str]
) -> None:
    choice = KernelChoice(**options)
    assert set(kernels_needed(choice, uses_l2=uses_l2)) == names | {"prefill_attention"}
    models = gpu("a100_sxm_80gb").kernels
    every = {"decode_attention", "mixed_attention", "shared_prefix", "l2"}
    missing: dict[str, Any] = dict.fromkeys(every - names)
    only: Any = _Device(replace(models, provenance={}, **missing))
    pricer = attention_pricer(only, shape_of("llama3_8b"), choice, uses_l2=uses_l2, block_tokens=16)
    assert pricer.prefill is not None


class _Device:
    """A device with some kernels."""

    def __init__(self, kernels: KernelModels) -> None:
        self.kernels = kernels

    def kernel(self, name: str) -> object:
        found = getattr(self.kernels, name)
        assert found is not None, name
        return found


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("uses_l2", [False, True])
def test_the_tree_is_asked_for_only_where_prices_depend_on_it(
    choice: KernelChoice, uses_l2: bool
) -> None:
    pricer = pricer_of(gpu("a100_sxm_80gb"), shape_of("llama3_8b"), choice, uses_l2=uses_l2)
    assert pricer.uses_tree == (uses_l2 or choice.name in ("flash_cascade", "packed"))
    kinds = {"packed": PackedPricer, "flashinfer": ObliviousPricer, "flash_pat": ObliviousPricer}
    assert type(pricer) is kinds.get(choice.name, FlashPricer)


def test_the_kernels_in_use_follow_the_choice_and_the_model() -> None:
    a100 = load_profile("a100_sxm_80gb")
    llama, mixtral = load_model("llama3_8b"), load_model("mixtral_8x7b")
    packed = KernelChoice(name="packed")
    assert set(CalibratedCost(a100, llama, kernel=packed, uses_l2=True).kernels_in_use) == {
        "gemm",
        "small_ops",
        "prefill_attention",
        "shared_prefix",
    }
    assert set(CalibratedCost(a100, mixtral, 2, uses_l2=True).kernels_in_use) == {
        "gemm",
        "small_ops",
        "prefill_attention",
        "decode_attention",
        "shared_prefix",
        "l2",
        "moe",
        "all_reduce",
    }


@pytest.mark.parametrize("choice", CHOICES)
def test_a_cost_model_pickles_and_prices_the_same_whatever_it_priced_before(
    choice: KernelChoice,
) -> None:
    cost = CalibratedCost(
        load_profile("a100_sxm_80gb"), load_model("llama3_8b"), kernel=choice, uses_l2=True
    )
    fresh: CalibratedCost = pickle.loads(pickle.dumps(cost))
    batch = random_batch(5)
    for seed in range(20):
        cost.decode_run_s(random_batch(seed), 40)
    used: CalibratedCost = pickle.loads(pickle.dumps(cost))
    expected_s = fresh.decode_run_s(batch, 60).tolist()
    assert cost.decode_run_s(batch, 60).tolist() == expected_s
    assert used.decode_run_s(batch, 60).tolist() == expected_s


def test_packed_reads_the_same_with_and_without_l2() -> None:
    cost = CalibratedCost(
        load_profile("a100_sxm_80gb"),
        load_model("llama3_8b"),
        kernel=KernelChoice(name="packed"),
        uses_l2=True,
    )
    assert not cost.uses_l2
    assert cost.uses_prefix_tree


def test_a_device_without_a_kernel_of_the_choice_says_which_in_one_line() -> None:
    bare: DeviceSpec = replace(load_profile("a100_sxm_80gb"), kernels_at="")
    with pytest.raises(ConfigError, match="has no calibrated prefill_attention kernel") as caught:
        CalibratedCost(bare, load_model("llama3_8b"), kernel=KernelChoice(name="packed"))
    assert "\n" not in str(caught.value)
