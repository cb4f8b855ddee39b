"""Decode steps priced one at a time equal the closed forms over arrays, kernel by kernel."""

from array import array
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwmodels.attention.choice import KernelChoice
from hwmodels.kernels.prefix_batch import PrefixBatch
from hwmodels.kernels.shared_prefix import SharedPrefixKernel
from tests.unit.hwmodels.attention.batches import (
    CHOICES,
    SharingBatch,
    alone,
    gpu,
    one_group,
    pricer_of,
    random_batch,
    shape_of,
    sharing_batch,
    step_s,
    steps_of,
)
from tests.unit.hwmodels.attention.closed_forms import decode_s, heads_of

DEVICES = ("a100_sxm_80gb", "h200_sxm", "rtx6000_ada")
"""Thread blocks with a rate of their own; without; with the steepest hit curve."""
MODELS = ("llama3_8b", "llama2_7b", "qwen2_5_0_5b")
"""Grouped queries; one query head per KV head; two KV heads, so that large batches split too."""

REFRESH_TOLERANCE = {"a100_sxm_80gb": 0.01, "h200_sxm": 0.01, "rtx6000_ada": 0.05}
"""Relative; hit ratios stand still while the mean context grows by a KV block. Found over random
trees of 600 tokens and more: 0.0004, 0.004 and 0.025."""

choices = st.sampled_from(CHOICES)
devices, models = st.sampled_from(DEVICES), st.sampled_from(MODELS)
batches = st.integers(0, 10**6).map(random_batch)


def test_the_devices_differ_where_the_kernels_do() -> None:
    decodes = [gpu(name).kernels.decode_attention for name in DEVICES]
    assert [d is not None and d.can_split_mha for d in decodes] == [False, True, False]
    assert [d is not None and d.cta_gqa_bytes_per_s is None for d in decodes] == [
        False,
        True,
        False,
    ]


@settings(max_examples=300, deadline=None)
@given(device=devices, model=models, choice=choices, batch=batches, step=st.integers(0, 40))
def test_a_step_costs_what_the_closed_form_says_at_the_refreshed_context(
    device: str, model: str, choice: KernelChoice, batch: SharingBatch, step: int
) -> None:
    shape, batch = shape_of(model), batch.after(step)
    found_s = step_s(pricer_of(gpu(device), shape, choice), batch)
    assert found_s == pytest.approx(decode_s(gpu(device), shape, choice, batch), rel=1e-12)


@settings(max_examples=200, deadline=None)
@given(
    device=devices,
    model=models,
    kernel=st.sampled_from(get_args(SharedPrefixKernel)),
    order=st.sampled_from(["interleaved", "contiguous"]),
    batch=batches,
)
def test_a_step_is_close_to_the_model_of_the_device(
    device: str, model: str, kernel: SharedPrefixKernel, order: str, batch: SharingBatch
) -> None:
    shape = shape_of(model)
    choice = KernelChoice(name=kernel, member_order=order)  # type: ignore[arg-type]
    batch = batch.after(600)  # the hit ratio of short contexts moves fast
    layer_s = gpu(device).shared.steps_s(
        PrefixBatch.from_view(batch), *heads_of(shape), kernel, choice.member_order
    )
    found_s = step_s(pricer_of(gpu(device), shape, choice), batch)
    tolerance = 1e-12 if kernel == "packed" else REFRESH_TOLERANCE[device]
    assert found_s == pytest.approx(shape.num_layers * layer_s[0], rel=tolerance)


@pytest.mark.parametrize("kernel", get_args(SharedPrefixKernel))
def test_a_tree_given_node_by_node_takes_the_time_of_its_batch(kernel: SharedPrefixKernel) -> None:
    """Two roots of three and nine requests; L2 holds it all, so that no refresh matters."""
    nodes = [(-1, 1600), (-1, 900), (1, 300), (1, 500)]
    asks = [((0,), 40)] * 3 + [((1, 2), 64)] * 4 + [((1, 3), 80)] * 5
    big = gpu("a100_sxm_80gb").with_l2_midpoint(1e15)
    parents = [-1, -1, 1, 1, *[0] * 3, *[2] * 4, *[3] * 5]
    tokens = [1600, 900, 300, 500, *[40] * 3, *[64] * 4, *[80] * 5]
    members = [3, 9, 4, 5, *[1] * 12]
    shape = shape_of("llama3_8b")
    layer_s = big.shared.tree_time_s(parents, tokens, members, 32, 8, kernel=kernel)
    found_s = step_s(
        pricer_of(big, shape, KernelChoice(name=kernel, member_order="contiguous")),
        sharing_batch(nodes, asks),
    )
    assert found_s == pytest.approx(32 * layer_s, rel=1e-12)


@settings(max_examples=150, deadline=None)
@given(
    device=devices,
    model=models,
    choice=choices,
    batch=batches,
    num_steps=st.integers(1, 120),
)
def test_a_run_of_steps_ends_where_its_steps_one_by_one_do_bit_for_bit(
    device: str, model: str, choice: KernelChoice, batch: SharingBatch, num_steps: int
) -> None:
    pricer = pricer_of(gpu(device), shape_of(model), choice)
    constant_s, end_s = 0.0123, 4.56
    expected = []
    for step in range(num_steps):
        end_s += step_s(pricer, batch.after(step)) + constant_s
        expected.append(end_s)
    ends = array("d", [-1.0] * (num_steps + 3))
    pricer.write_run_ends(batch, num_steps, constant_s, 4.56, memoryview(ends), 2)
    assert ends.tolist() == [-1.0, -1.0, *expected, -1.0]


@pytest.mark.parametrize("size", [90, 88, 71])
def test_a_long_run_in_which_another_bound_comes_to_bind_is_exact_too(size: int) -> None:
    # L2 serves all but the requests' own tokens: these grow until memory binds. The last wave of
    # thread blocks has 10 on 142 processors, 136, or is full.
    ada = gpu("rtx6000_ada").with_l2_midpoint(1e15)
    pricer = pricer_of(ada, shape_of("llama3_8b"), KernelChoice())
    batch, num_steps = one_group(size, 700, 1), 2500
    ends = array("d", [0.0] * num_steps)
    pricer.write_run_ends(batch, num_steps, 0.0, 0.0, memoryview(ends), 0)
    expected, end_s = [], 0.0
    for step in range(num_steps):
        end_s += step_s(pricer, batch.after(step))
        expected.append(end_s)
    assert ends.tolist() == expected
    slopes_s = np.diff(np.diff(expected))
    assert slopes_s[-1] > 1.2 * slopes_s[0]


@settings(max_examples=150, deadline=None)
@given(device=devices, model=models, choice=choices, batch=batches, other=batches)
def test_many_steps_at_once_cost_what_they_cost_one_by_one(
    device: str, model: str, choice: KernelChoice, batch: SharingBatch, other: SharingBatch
) -> None:
    pricer = pricer_of(gpu(device), shape_of(model), choice)
    lonely = alone([300, 20, 9])
    steps = [batch, lonely, batch.after(1), batch.after(29), other, other.after(7), lonely.after(3)]
    found_s = pricer.many_s(steps_of(*steps))
    assert found_s == pytest.approx([step_s(pricer, one) for one in steps], rel=1e-12)


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("model", MODELS)
def test_without_sharing_l2_changes_no_bit(choice: KernelChoice, model: str) -> None:
    for device in DEVICES:
        with_l2, without = (
            pricer_of(gpu(device), shape_of(model), choice, uses_l2=on) for on in (True, False)
        )
        for contexts in ([7], [500, 3000], list(range(40, 4000, 57))):
            batch = alone(contexts)
            assert step_s(with_l2, batch) == step_s(without, batch)


@pytest.mark.parametrize("device", DEVICES)
def test_a_cascade_without_l2_reads_suffixes_from_memory(device: str) -> None:
    shape = shape_of("llama3_8b")
    pricer = pricer_of(gpu(device), shape, KernelChoice(name="flash_cascade"), uses_l2=False)
    assert pricer.uses_tree
    batch = one_group(50, 2000, 64)
    no_hits = gpu(device).with_l2_midpoint(1.0)
    expected_s = decode_s(no_hits, shape, KernelChoice(name="flash_cascade"), batch)
    assert step_s(pricer, batch) == pytest.approx(expected_s, rel=1e-9)


def test_parts_that_grow_where_a_stretch_begins_are_exact_too() -> None:
    # The mean context comes to 210 blocks of 128 tokens exactly. The longer parts of the step after
    # that bind for a while, then memory binds again.
    contexts = [73_150, 15_308, 15_309, 15_309, 15_309]
    batch = sharing_batch([(-1, 512)], [((0,), tokens - 512) for tokens in contexts])
    pricer = pricer_of(gpu("a100_sxm_80gb"), shape_of("llama3_8b"), KernelChoice())
    ends = array("d", [0.0] * 37)
    pricer.write_run_ends(batch, 37, 0.0, 0.0, memoryview(ends), 0)
    expected, end_s = [], 0.0
    for step in range(37):
        end_s += step_s(pricer, batch.after(step))
        expected.append(end_s)
    assert ends.tolist() == expected
    times_s = np.diff(expected)
    assert times_s[3] - times_s[2] > 4 * (times_s[2] - times_s[1]) > 0
