"""Contexts worked out from the records are those that were priced; bubbles are stragglers alone."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.results.decode_lengths import sampled_decode_steps
from hwmodels.attention.choice import KernelChoice
from hwmodels.calibrated import CalibratedCost
from hwmodels.device import load_profile
from hwmodels.iteration_bubbles import FAMILIES, Lengths, bubbles_s, families_of
from hwmodels.model_catalogue import load_model
from sim.interfaces import DecodeBatchView
from tests.engine_runs import LinearCost, run_engine
from tests.twin.workloads import random_workload


class NotingCost(LinearCost):
    """Notes the contexts of every decode-only step that it prices."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[tuple[float, ...]] = []

    def decode_step_s(self, batch: DecodeBatchView) -> float:
        self.noted.append(
            (
                batch.num_requests,
                batch.context_tokens,
                batch.context_tokens_squared,
                batch.max_context_tokens,
            )
        )
        return super().decode_step_s(batch)

    def mixed_step_s(self, batch: DecodeBatchView, chunks: object) -> float:
        price_s = super().mixed_step_s(batch, chunks)  # type: ignore[arg-type]
        self.noted.pop()
        return price_s


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 2**32), structured=st.booleans(), is_async=st.booleans())
def test_sampled_contexts_are_those_that_were_priced(
    seed: int, structured: bool, is_async: bool
) -> None:
    workload, limits = random_workload(seed, structured=structured, step_s=0.01)
    cost = NotingCost()
    result = run_engine(
        workload,
        usable_blocks=limits["num_gpu_blocks"] - 1,
        seats=limits["max_num_seqs"],
        budget=limits["max_num_batched_tokens"],
        block_tokens=16,
        cost=cost,
        is_async=is_async,
        macro_steps=False,
    )
    steps = sampled_decode_steps(result)
    if not cost.noted:
        assert steps is None
        return
    assert steps is not None
    lengths = steps.lengths
    found = np.stack(
        [lengths.num_requests, lengths.context_tokens, lengths.squares, lengths.longest], axis=1
    )
    assert len(cost.noted) <= 2048
    assert found.tolist() == [list(map(float, one)) for one in cost.noted]
    priced_s = lengths.context_tokens * 1e-5 + (0.004 + lengths.num_requests * 3e-4)
    np.testing.assert_allclose(steps.duration_s, priced_s, rtol=1e-6)


def test_macro_steps_leave_the_sample_as_it_is() -> None:
    workload, limits = random_workload(7, structured=False, step_s=0.01)
    samples = [
        sampled_decode_steps(
            run_engine(
                workload,
                usable_blocks=limits["num_gpu_blocks"] - 1,
                seats=limits["max_num_seqs"],
                budget=limits["max_num_batched_tokens"],
                block_tokens=16,
                cost=LinearCost(),
                macro_steps=macro_steps,
            )
        )
        for macro_steps in (True, False)
    ]
    first, second = samples
    assert first is not None
    assert second is not None
    for name in ("num_requests", "context_tokens", "squares", "longest"):
        assert (getattr(first.lengths, name) == getattr(second.lengths, name)).all()


@functools.cache
def cost_of(model: str) -> CalibratedCost:
    return CalibratedCost(load_profile("a100_sxm_80gb"), load_model(model))


def lengths_of(*contexts: int) -> Lengths:
    values = np.array(contexts, dtype=np.float64)
    return Lengths(
        num_requests=np.array([float(len(values))]),
        context_tokens=np.array([values.sum()]),
        squares=np.array([(values**2).sum()]),
        longest=np.array([values.max()]),
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_equal_lengths_have_no_bubble(family: str) -> None:
    cost = cost_of("llama2_7b")
    assert bubbles_s(cost, lengths_of(*[700] * 40), family)[0] == 0  # type: ignore[arg-type]


def test_a_long_request_holds_up_one_block_per_head_and_pads_all() -> None:
    """40 MHA requests of 500 tokens and one of 8,000; no kernel splits so many."""
    cost = cost_of("llama2_7b")
    lengths = lengths_of(*[500] * 40, 8000)
    found = {family: float(bubbles_s(cost, lengths, family)[0]) for family in FAMILIES}
    assert 0 < found["per_head"] < found["padded"]
    assert found["split_kv"] == found["per_head"]
    longer = lengths_of(*[500] * 40, 16_000)
    for family in ("per_head", "padded"):
        assert bubbles_s(cost, longer, family)[0] > found[family]


def test_splitting_shortens_the_wait_where_requests_are_few() -> None:
    cost = cost_of("llama3_8b")
    lengths = lengths_of(500, 500, 8000)
    found = {family: float(bubbles_s(cost, lengths, family)[0]) for family in FAMILIES}
    assert found["split_kv"] < found["per_head"] / 2


def test_kernels_without_a_decode_form_have_no_families() -> None:
    device, shape = load_profile("a100_sxm_80gb"), load_model("llama3_8b")
    assert families_of(CalibratedCost(device, shape, kernel=KernelChoice(name="flashinfer"))) == ()
    assert families_of(cost_of("llama3_8b")) == FAMILIES
