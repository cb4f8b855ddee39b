"""Factors of attention on nodes: scalar and array alike, exact at points, 1 elsewhere."""

import math

import numpy as np
import pytest

from hwmodels.tables.attention_residuals import DecodeResiduals, PrefillResiduals
from hwmodels.tables.decode_factors import DecodeFactors
from hwmodels.tables.nodes import nodes_of
from hwmodels.tables.prefill_factors import PrefillFactors
from tests.unit.hwmodels.tables.toy_tables import GRIDS, MODELS, points, uneven


def decode() -> DecodeFactors:
    assert MODELS.decode_attention is not None
    factors = DecodeResiduals(points("decode_attention", uneven), MODELS.decode_attention)
    found = factors.of(32, 8)
    assert found is not None
    return found


def prefill() -> PrefillFactors:
    assert MODELS.prefill_attention is not None
    factors = PrefillResiduals(points("prefill_attention", uneven), MODELS.prefill_attention)
    found = factors.of(1, 32, 8)
    assert found is not None
    return found


def test_nodes_are_the_values_and_the_ends_of_their_reach() -> None:
    assert nodes_of([3.0, 4.5]) == [1.0, 2.0, 3.0, 4.5, 5.5, 6.5]
    assert nodes_of([3.5]) == [1.5, 2.5, 3.5, 4.5, 5.5]
    assert nodes_of([0.0, 2.5]) == [-2.0, -1.0, 0.0, 1.0, 1.5, 2.5, 3.5, 4.5]
    assert nodes_of([0.0, 5.0]) == [-2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    assert nodes_of([1.0, 1.0 + 1e-12]) == [-1.0, 0.0, 1.0, 2.0, 3.0]


def test_decode_has_the_factor_of_a_measured_point() -> None:
    columns = GRIDS["decode_attention"]
    found = decode().factors(columns["batch_size"], columns["context_tokens"])
    assert found.tolist() == pytest.approx(uneven(columns).tolist(), rel=1e-12)


def test_between_two_nodes_decode_is_linear_in_the_logarithm_of_the_context() -> None:
    factors = decode()
    low, high = factors.factor(4, 512), factors.factor(4, 1024)  # a node: the reach of 512
    share = math.log2(800 / 512)
    assert factors.factor(4, 800) == pytest.approx(low + (high - low) * share, rel=1e-12)
    assert low != high


def test_decode_is_the_form_two_octaves_beyond_what_was_measured() -> None:
    factors = decode()
    assert factors.factor(1, 2048 * 4) == pytest.approx(1.0, abs=1e-12)
    assert factors.factor(1, 2048 * 64) == 1.0
    assert factors.factor(1, 1) == 1.0
    assert factors.factor(64, 512) == pytest.approx(1.0, abs=1e-12)
    assert factors.factor(1, 2048 * 2) != pytest.approx(1.0, abs=1e-3)


def test_decode_of_one_batch_is_as_in_an_array() -> None:
    factors = decode()
    batch = np.array([[1], [3], [16], [40], [500]])
    mean = np.geomspace(1, 1e6, 200)
    array = factors.factors(batch, mean)
    assert array.shape == (5, 200)
    alone = [[factors.factor(size, value) for value in mean.tolist()] for size in batch[:, 0]]
    assert array == pytest.approx(np.array(alone), rel=1e-12)
    assert factors.factors(3, 700.0).shape == ()


def test_decode_knows_what_its_points_cover() -> None:
    factors = decode()
    batch, mean = np.array([1, 3, 16, 16, 64, 1]), np.array([128, 700, 2048, 5000, 512, 9e5])
    assert factors.covers(batch, mean).tolist() == [True, True, True, False, False, False]


def test_other_heads_fade_and_one_query_head_per_kv_head_is_a_kernel_of_its_own() -> None:
    assert MODELS.decode_attention is not None
    slower = points("decode_attention", lambda columns: 1.5)
    residuals = DecodeResiduals(slower, MODELS.decode_attention)
    expected = {(32, 8): 1.5, (64, 8): 1.5, (64, 16): 1.5, (64, 32): 1.0, (8, 8): 1.0}
    for heads, factor in expected.items():
        found = residuals.of(*heads)
        assert found is not None
        assert found.factor(4, 512) == pytest.approx(factor, rel=1e-12), heads
    assert residuals.of(32, 8, 64) is None


def test_prefill_has_the_factor_of_a_measured_point() -> None:
    columns = GRIDS["prefill_attention"]
    found = prefill().factors(columns["chunk_tokens"], columns["prefix_tokens"])
    assert found.tolist() == pytest.approx(uneven(columns).tolist(), rel=1e-12)


def test_within_a_cell_prefill_is_bilinear_in_the_logarithms() -> None:
    factors = prefill()
    columns = GRIDS["prefill_attention"]
    measured = np.log2(1 + columns["prefix_tokens"] / columns["chunk_tokens"])
    above = min(node for node in nodes_of(measured.tolist()) if node > 1e-6)  # the next to 0
    corners = [
        [factors.factor(2.0**x, 2.0**x * (2.0**y - 1)) for y in (0.0, above)] for x in (9, 10)
    ]
    x, y = math.log2(600) - 9, 0.4
    low, high = (row[0] + (row[1] - row[0]) * y for row in corners)
    expected = low + (high - low) * x
    assert factors.factor(600, 600 * (2.0 ** (y * above) - 1)) == pytest.approx(expected, rel=1e-9)
    assert len({*corners[0], *corners[1]}) == 4


def test_prefill_is_the_form_far_from_what_was_measured() -> None:
    factors = prefill()
    assert factors.factor(128 * 2**9, 0) == 1.0
    assert factors.factor(1, 0) == 1.0
    assert factors.factor(2048, 2**21) == 1.0
    assert factors.factor(2048, 0) != 1.0
    chunks, prefixes = np.array([128, 128, 2048]), np.array([0, 10_000_000, 500])
    assert factors.covers(chunks, prefixes).tolist() == [True, False, True]
