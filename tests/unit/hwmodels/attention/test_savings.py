"""Context tokens that a decode step need not read from HBM, and what that can save at most."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwmodels.attention.choice import KernelChoice
from hwmodels.device import load_profile
from hwmodels.kernels.prefix_batch import PrefixBatch
from hwmodels.kernels.tree_traffic import MemberOrder
from tests.unit.hwmodels.attention.batches import (
    CHOICES,
    Gpu,
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
from tests.unit.hwmodels.attention.closed_forms import cascaded_tokens, hit_tokens

DEVICES, MODELS = ("a100_sxm_80gb", "h200_sxm", "rtx6000_ada"), ("llama3_8b", "llama2_7b")
HITTING = [choice for choice in CHOICES if choice.name != "packed"]

devices, models = st.sampled_from(DEVICES), st.sampled_from(MODELS)
batches = st.integers(0, 10**6).map(random_batch)


def savings_of(
    device: Gpu, model: str, choice: KernelChoice, batch: SharingBatch, *, uses_l2: bool = True
) -> tuple[float, float]:
    """(unread, hit) tokens of a step."""
    pricer = pricer_of(device, shape_of(model), choice, uses_l2=uses_l2)
    unread, hit = pricer.savings(steps_of(batch))
    return float(unread[0]), float(hit[0])


@settings(max_examples=200, deadline=None)
@given(device=devices, model=models, choice=st.sampled_from(HITTING), batch=batches)
def test_savings_are_those_of_the_closed_form(
    device: str, model: str, choice: KernelChoice, batch: SharingBatch
) -> None:
    rest, unread, shape = PrefixBatch.from_view(batch), 0, shape_of(model)
    if choice.name == "flash_cascade":
        common = cascaded_tokens(gpu(device), shape, rest)
        unread = common * (batch.num_requests - 1)
        rest = rest.without_common(common) if common else rest
    found = savings_of(gpu(device), model, choice, batch)
    assert found[0] == unread
    hit = hit_tokens(gpu(device), shape, choice, rest)
    assert found[1] == pytest.approx(hit, rel=1e-9, abs=1e-6)


@settings(max_examples=100, deadline=None)
@given(device=devices, choice=st.sampled_from(CHOICES), batch=batches)
def test_what_comes_from_memory_lies_between_unique_and_logical_bytes(
    device: str, choice: KernelChoice, batch: SharingBatch
) -> None:
    from_memory = batch.context_tokens - sum(savings_of(gpu(device), "llama3_8b", choice, batch))
    assert batch.unique_tokens * (1 - 1e-12) <= from_memory <= batch.context_tokens


def test_the_packed_kernel_reads_every_token_once_and_hits_nothing() -> None:
    batch = sharing_batch([(-1, 900), (0, 40)], [((0,), 7), ((0, 1), 30), ((0, 1), 50), ((), 8)])
    found = savings_of(gpu("a100_sxm_80gb"), "llama3_8b", KernelChoice(name="packed"), batch)
    assert found == (2 * 900.0 + 40.0, 0.0)
    assert batch.context_tokens - found[0] == batch.unique_tokens


@pytest.mark.parametrize("choice", HITTING)
@pytest.mark.parametrize("device", DEVICES)
def test_an_l2_that_holds_everything_leaves_the_unique_bytes(
    choice: KernelChoice, device: str
) -> None:
    batch = one_group(80, 1000, 30)
    found = savings_of(gpu(device).with_l2_midpoint(1e18), "llama3_8b", choice, batch)
    assert sum(found) == pytest.approx(79 * 1000, rel=1e-12)
    if choice.name == "flash_cascade":
        assert found[0] == 79 * 992  # whole KV blocks


@pytest.mark.parametrize("choice", CHOICES)
def test_without_an_l2_nothing_hits(choice: KernelChoice) -> None:
    unread, hit = savings_of(
        gpu("a100_sxm_80gb"), "llama3_8b", choice, one_group(80, 1000, 30), uses_l2=False
    )
    assert hit == 0
    assert unread == {"packed": 79 * 1000, "flash_cascade": 79 * 992}.get(choice.name, 0)


@pytest.mark.parametrize("choice", HITTING)
def test_an_l2_of_no_size_serves_nothing(choice: KernelChoice) -> None:
    tiny = gpu("a100_sxm_80gb").with_l2_midpoint(1.0)
    assert savings_of(tiny, "llama3_8b", choice, one_group(80, 1000, 30))[1] == pytest.approx(
        0, abs=1e-6
    )


@pytest.mark.parametrize("choice", CHOICES)
def test_requests_without_a_common_token_save_nothing(choice: KernelChoice) -> None:
    assert savings_of(gpu("a100_sxm_80gb"), "llama3_8b", choice, alone([90] * 30)) == (0, 0)


@settings(max_examples=100, deadline=None)
@given(device=devices, model=models, choice=st.sampled_from(HITTING), batch=batches)
def test_requests_side_by_side_hit_no_less_and_take_no_longer_than_mixed_ones(
    device: str, model: str, choice: KernelChoice, batch: SharingBatch
) -> None:
    orders = [replace(choice, member_order=order) for order in get_args(MemberOrder)[::-1]]
    contiguous, interleaved = (savings_of(gpu(device), model, one, batch)[1] for one in orders)
    assert contiguous >= interleaved * (1 - 1e-12)
    shape = shape_of(model)
    first_s, second_s = (step_s(pricer_of(gpu(device), shape, one), batch) for one in orders)
    assert first_s <= second_s * (1 + 1e-12)


@settings(max_examples=150, deadline=None)
@given(device=devices, model=models, choice=st.sampled_from(CHOICES), batch=batches)
def test_no_kernel_beats_its_unique_bytes_or_its_flops(
    device: str, model: str, choice: KernelChoice, batch: SharingBatch
) -> None:
    shape, spec = shape_of(model), load_profile(device)
    heads, kv_heads, width = shape.num_attention_heads, shape.num_kv_heads, shape.head_dim
    flops = 4 * width * heads * batch.context_tokens * shape.num_layers
    unique_bytes = 4 * width * kv_heads * batch.unique_tokens * shape.num_layers
    found_s = step_s(pricer_of(gpu(device), shape, choice), batch)
    assert found_s > max(flops / spec.peak_flops_per_s, unique_bytes / spec.hbm_bytes_per_s)


@pytest.mark.parametrize("choice", CHOICES)
def test_sharing_never_makes_a_step_slower(choice: KernelChoice) -> None:
    for device in DEVICES:
        pricer = pricer_of(gpu(device), shape_of("llama3_8b"), choice)
        apart_s = step_s(pricer, alone([5030] * 60))
        times_s = []
        for groups in (30, 12, 5, 2, 1):
            nodes = [(-1, 5000)] * groups
            asks = [((k % groups,), 30) for k in range(60)]
            times_s.append(step_s(pricer, sharing_batch(nodes, asks)))
        if choice.name == "packed":  # merging partial results of few tokens saved may not pay
            apart_s *= 1.05
        assert (np.diff([apart_s, *times_s]) <= 1e-12).all()
