"""Tabled kernels in the place of the fitted ones: their times, and what else stays."""

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hwmodels.kernels.models import KernelModels
from hwmodels.tables.axes import TABLED_KERNELS
from hwmodels.tables.join import tabled
from hwmodels.tables.kernels import TabledAllReduce, TabledDecodeAttention, TabledGemm, TabledMoe
from sim.errors import ConfigError
from tests.unit.hwmodels.tables.toy_tables import (
    BETTER,
    GRIDS,
    MODELS,
    WORSE,
    points,
    table_of,
    uneven,
)


def with_all(factor: Any = uneven) -> KernelModels:
    return tabled(MODELS, table_of(*(points(kernel, factor) for kernel in GRIDS)))


@pytest.mark.parametrize("kernel", list(GRIDS))
def test_a_measured_point_costs_what_was_measured(kernel: str) -> None:
    measured = points(kernel, uneven)
    found = TABLED_KERNELS[kernel].form_s(getattr(with_all(), kernel), measured.columns)
    assert found.tolist() == pytest.approx(measured.time_s.tolist(), rel=1e-12)


def test_far_from_every_point_the_form_alone_counts() -> None:
    kernels = with_all(lambda columns: 2.0)
    assert MODELS.gemm is not None and kernels.gemm is not None
    assert MODELS.decode_attention is not None and kernels.decode_attention is not None
    assert MODELS.prefill_attention is not None and kernels.prefill_attention is not None
    assert kernels.gemm.time_s(64, 2**16, 4096) == MODELS.gemm.time_s(64, 2**16, 4096)
    batch = (8, 8 * 10**6, 10**6, 8 * 10**12, 32, 8)
    assert kernels.decode_attention.time_s(*batch) == MODELS.decode_attention.time_s(*batch)
    other_width = (4, 4 * 512, 512, 4 * 512**2, 32, 8, 64)
    form_s = MODELS.decode_attention.time_s(*other_width)
    assert kernels.decode_attention.time_s(*other_width) == form_s
    chunk = (1, 512, 0, 2, 1)
    assert kernels.prefill_attention.time_s(*chunk) == MODELS.prefill_attention.time_s(*chunk)


def test_near_points_the_form_is_scaled_by_their_factor() -> None:
    kernels = with_all(lambda columns: 1.5)
    assert MODELS.gemm is not None and kernels.gemm is not None
    assert MODELS.decode_attention is not None and kernels.decode_attention is not None
    form_s = MODELS.gemm.time_s([64, 20], 1500, 4000)
    assert kernels.gemm.time_s([64, 20], 1500, 4000).tolist() == pytest.approx(
        (1.5 * form_s).tolist()
    )
    lengths = [100, 700, 1400]
    form_s = MODELS.decode_attention.lengths_time_s(lengths, 32, 8)
    found = kernels.decode_attention.lengths_time_s(lengths, 32, 8)
    assert found == pytest.approx(1.5 * form_s, rel=1e-12)


def test_numbers_give_what_an_array_gives() -> None:
    kernels = with_all()
    assert kernels.gemm is not None and kernels.decode_attention is not None
    assert kernels.moe is not None and kernels.prefill_attention is not None
    m = np.arange(1, 300)
    alone = [float(kernels.gemm.time_s(int(size), 3000, 2000)) for size in m]
    assert kernels.gemm.time_s(m, 3000, 2000).tolist() == pytest.approx(alone, rel=1e-13)
    assert isinstance(kernels.gemm.time_s(5, 3000, 2000), float)
    steps = np.arange(1000.0)
    total, longest = 12 * (300 + steps), 300 + steps
    run_s = kernels.decode_attention.time_s(12, total, longest, total * longest, 32, 8)
    one_s = kernels.decode_attention.time_s(
        12, total[700], longest[700], total[700] * longest[700], 32, 8
    )
    assert run_s[700] == pytest.approx(float(one_s), rel=1e-13)
    tokens = np.array([[1, 30], [64, 3000]])
    assert kernels.moe.time_s(tokens, 4096, 14336, 2, 8).shape == (2, 2)
    chunks = kernels.prefill_attention.time_s(1, tokens, 0, 32, 8)
    assert chunks.shape == (2, 2)
    single_s = kernels.prefill_attention.time_s(1, 3000, 0, 32, 8)
    assert chunks[1, 1] == pytest.approx(float(single_s), rel=1e-13)


def test_an_all_reduce_has_the_factor_of_its_own_group_size_and_one_gpu_none() -> None:
    slower = points("all_reduce", lambda columns: columns["num_gpus"])
    kernels = tabled(MODELS, table_of(slower))
    assert MODELS.all_reduce is not None
    assert isinstance(kernels.all_reduce, TabledAllReduce)
    form_s = MODELS.all_reduce.time_s(2048, np.array([1, 2, 4]))
    found = kernels.all_reduce.time_s(2048, np.array([1, 2, 4]))
    assert found.tolist() == pytest.approx([0.0, 2 * form_s[1], 4 * form_s[2]], rel=1e-12)
    assert float(kernels.all_reduce.time_s(0, 2)) > 0
    assert kernels.all_reduce.covers([2048, 2048, 2**30], [2, 8, 2]).tolist() == [
        True,
        False,
        False,
    ]


def test_a_kernel_without_splits_was_not_measured() -> None:
    kernels = with_all(lambda columns: 1.5)
    assert isinstance(kernels.decode_attention, TabledDecodeAttention)
    assert MODELS.decode_attention is not None
    lengths = [512] * 4
    unsplit = replace(kernels.decode_attention, split_slots=1)
    form = replace(MODELS.decode_attention, split_slots=1)
    assert unsplit.lengths_time_s(lengths, 32, 8) == form.lengths_time_s(lengths, 32, 8)


def test_points_near_tell_what_is_covered() -> None:
    kernels = with_all()
    assert isinstance(kernels.gemm, TabledGemm) and isinstance(kernels.moe, TabledMoe)
    assert kernels.gemm.covers([1, 2048], [[1024], [2**20]], 1024).tolist() == [
        [True, False],
        [False, False],
    ]
    assert kernels.moe.covers(8, 4096, 14336, 2, [8, 64]).tolist() == [False, False]
    assert kernels.moe.covers(2, 4096, 14336, 2, 8)


def test_provenance_tells_of_the_points() -> None:
    gemm = points("gemm", uneven, BETTER)
    kernels = tabled(MODELS, table_of(gemm))
    record = kernels.provenance["gemm"]
    assert record.num_rows == gemm.num_points
    assert record.heldout_mape == 0.05
    assert record.valid == {"m": (1, 64), "n": (1024, 4096), "k": (1024, 4096)}
    assert record.source.startswith("table of 18 points: toy; elsewhere ")
    assert kernels.provenance["moe"] == MODELS.provenance["moe"]
    assert kernels.moe is MODELS.moe


def test_points_that_predict_worse_than_the_form_are_left_to_it() -> None:
    table = table_of(points("gemm", uneven, WORSE), points("moe", uneven, BETTER))
    kernels = tabled(MODELS, table)
    assert kernels.gemm is MODELS.gemm
    assert isinstance(kernels.moe, TabledMoe)
    assert list(table.coverage()) == ["moe"]


def test_a_table_of_another_device_or_of_a_kernel_without_a_form_is_refused() -> None:
    other = table_of(points("gemm", uneven), device="other")
    with pytest.raises(ConfigError, match="device mine: the table holds points of device other"):
        tabled(MODELS, other)
    without = replace(MODELS, moe=None, provenance={})
    with pytest.raises(ConfigError, match="points of moe, for which the device has no fitted"):
        tabled(without, table_of(points("moe", uneven)))


def test_tabled_kernels_survive_pickling() -> None:
    kernels = with_all()
    again = pickle.loads(pickle.dumps(kernels))
    assert again.gemm.time_s(77, 3000, 2000) == kernels.gemm.time_s(77, 3000, 2000)  # type: ignore[union-attr]
