"""Attention corrected by measured points, priced one step at a time."""

from array import array
from functools import cache

import pytest

from hwmodels.attention.choice import KernelChoice
from hwmodels.tables.join import tabled
from sim.interfaces import PrefillChunk
from tests.unit.hwmodels.attention.batches import (
    CHOICES,
    Gpu,
    alone,
    gpu,
    one_group,
    pricer_of,
    shape_of,
    step_s,
    steps_of,
)
from tests.unit.hwmodels.tables.toy_tables import points, table_of, uneven

LLAMA = shape_of("llama3_8b")
WITH_DECODE_FORM = [choice for choice in CHOICES if choice.has_decode_form]


@cache
def tabled_gpu() -> Gpu:
    """An A100 whose attention was measured at points that lie off its forms."""
    kernels = gpu("a100_sxm_80gb").kernels
    measured = [points(name, uneven) for name in ("decode_attention", "prefill_attention")]
    return Gpu(tabled(kernels, table_of(*measured, device=kernels.device)))


@pytest.mark.parametrize("size", [1, 3, 4, 11, 16, 60])
@pytest.mark.parametrize("context", [60, 128, 700, 2048, 5000])
def test_a_step_is_corrected_as_the_tabled_kernel_is(size: int, context: int) -> None:
    model = tabled_gpu().kernels.decode_attention
    assert model is not None
    batch = alone([context + k for k in range(size)])
    expected_s = 32 * float(model.lengths_time_s(batch.contexts, 32, 8))
    found_s = step_s(pricer_of(tabled_gpu(), LLAMA, KernelChoice()), batch)
    assert found_s == pytest.approx(expected_s, rel=1e-12)


def test_near_the_points_the_correction_is_felt() -> None:
    fitted, corrected = (
        step_s(pricer_of(device, LLAMA, KernelChoice()), alone([512] * 4))
        for device in (gpu("a100_sxm_80gb"), tabled_gpu())
    )
    assert abs(corrected / fitted - 1) > 0.02


@pytest.mark.parametrize("choice", WITH_DECODE_FORM)
@pytest.mark.parametrize("size", [4, 40])
def test_many_steps_and_runs_of_steps_cost_the_steps_one_by_one(
    choice: KernelChoice, size: int
) -> None:
    pricer, batch = pricer_of(tabled_gpu(), LLAMA, choice), one_group(size, 600, 50)
    steps_s = [step_s(pricer, batch.after(k)) for k in range(80)]
    many_s = pricer.many_s(steps_of(*(batch.after(k) for k in range(80))))
    assert many_s == pytest.approx(steps_s, rel=1e-12)
    ends, expected, end_s = array("d", [0.0] * 80), [], 1.0
    pricer.write_run_ends(batch, 80, 0.01, end_s, memoryview(ends), 0)
    for one_s in steps_s:
        end_s += one_s + 0.01
        expected.append(end_s)
    assert ends.tolist() == expected


@pytest.mark.parametrize("family", ["per_head", "padded"])
def test_a_family_that_nobody_measured_keeps_the_form(family: str) -> None:
    choice = KernelChoice(family=family)  # type: ignore[arg-type]
    found = [
        step_s(pricer_of(device, LLAMA, choice), alone([512] * 4))
        for device in (gpu("a100_sxm_80gb"), tabled_gpu())
    ]
    assert found[0] == found[1]


def test_a_chunk_is_corrected_as_the_tabled_kernel_is() -> None:
    model = tabled_gpu().kernels.prefill_attention
    assert model is not None
    pricer = pricer_of(tabled_gpu(), LLAMA, KernelChoice())
    for new_tokens, prefix_tokens in ((128, 0), (300, 1500), (2048, 4000), (7, 90)):
        expected_s = 32 * float(model.time_s(1, new_tokens, prefix_tokens, 32, 8))
        found_s = pricer.prefill.chunks_s([PrefillChunk(new_tokens, prefix_tokens, True)])
        assert found_s == pytest.approx(expected_s, rel=1e-12)
