"""Length distributions: moments against theory, and refusals."""

import math
from typing import Any

import numpy as np
import pytest

from sim.errors import ConfigError
from sim.rng import stream
from traces.synthetic.lengths import length_distribution

N = 200_000


def draw(spec: dict[str, Any], size: int = N) -> np.ndarray:
    return length_distribution("trace.prompt", spec).sample(stream(3, "test"), size)


def test_fixed_is_constant() -> None:
    assert draw({"kind": "fixed", "value": 7}, 3).tolist() == [7, 7, 7]


def test_uniform_includes_both_ends_with_the_right_moments() -> None:
    tokens = draw({"kind": "uniform", "low": 512, "high": 1024})
    assert (tokens.min(), tokens.max()) == (512, 1024)
    deviation = math.sqrt((513**2 - 1) / 12)
    assert tokens.mean() == pytest.approx(768, abs=4 * deviation / math.sqrt(N))
    assert tokens.std() == pytest.approx(deviation, rel=0.01)
    assert np.bincount(tokens)[[512, 1024]] == pytest.approx(N / 513, rel=0.25)


def test_lognormal_by_mean_and_cv_has_that_mean_and_cv() -> None:
    tokens = draw({"kind": "lognormal", "mean": 2000, "cv": 0.8})
    assert tokens.mean() == pytest.approx(2000, rel=4 * 0.8 / math.sqrt(N))
    assert tokens.std() / tokens.mean() == pytest.approx(0.8, rel=0.03)


def test_lognormal_by_median_and_sigma_has_that_median_and_sigma() -> None:
    tokens = draw({"kind": "lognormal", "median": 5000, "sigma": 0.5})
    assert np.median(tokens) == pytest.approx(5000, rel=0.01)
    assert np.log(tokens).std() == pytest.approx(0.5, rel=0.01)


def test_lognormal_is_clipped_and_never_below_one() -> None:
    tokens = draw({"kind": "lognormal", "median": 100, "sigma": 2, "low": 50, "high": 200})
    assert (tokens.min(), tokens.max()) == (50, 200)
    below = 0.5 * math.erfc(math.log(100 / 50.5) / 2 / math.sqrt(2))
    assert (tokens == 50).mean() == pytest.approx(below, abs=0.01)
    assert draw({"kind": "lognormal", "median": 0.01, "sigma": 0}).max() == 1


def test_a_wide_lognormal_stops_at_the_longest_length_allowed() -> None:
    tokens = draw({"kind": "lognormal", "median": 1000, "sigma": 5000})
    assert set(np.unique(tokens).tolist()) >= {1, 10_000_000}
    assert tokens.max() == 10_000_000


BAD = {
    "not a mapping": (512, "trace.prompt=512: must be a mapping such as {kind: fixed, value: 9}"),
    "no kind": ({"low": 1}, "trace.prompt.kind=None: must be one of fixed, uniform, lognormal"),
    "unknown kind": (
        {"kind": "normal"},
        "trace.prompt.kind='normal': must be one of fixed, uniform, lognormal",
    ),
    "unknown key": (
        {"kind": "fixed", "value": 1, "cv": 2},
        "trace.prompt has cv, value: kind fixed needs value",
    ),
    "missing key": (
        {"kind": "uniform", "low": 1},
        "trace.prompt has low: kind uniform needs low, high",
    ),
    "no key": ({"kind": "fixed"}, "trace.prompt has nothing: kind fixed needs value"),
    "two shapes": (
        {"kind": "lognormal", "mean": 1, "sigma": 2},
        "trace.prompt has mean, sigma: kind lognormal needs mean and cv, or median and sigma; "
        "optional low, high",
    ),
    "zero": (
        {"kind": "fixed", "value": 0},
        "trace.prompt.value=0: must be an integer from 1 to 10,000,000",
    ),
    "fraction": (
        {"kind": "fixed", "value": 1.5},
        "trace.prompt.value=1.5: must be an integer from 1 to 10,000,000",
    ),
    "reversed": (
        {"kind": "uniform", "low": 9, "high": 8},
        "trace.prompt.high=8: must be an integer from 9 to 10,000,000",
    ),
    "absurd": (
        {"kind": "uniform", "low": 9, "high": 10**8},
        "trace.prompt.high=100000000: must be an integer from 9 to 10,000,000",
    ),
    "negative cv": (
        {"kind": "lognormal", "mean": 5, "cv": -1},
        "trace.prompt.cv=-1: must be a finite number >= 0 and <= 1000",
    ),
    "absurd cv": (
        {"kind": "lognormal", "mean": 5, "cv": 1e308},
        "trace.prompt.cv=1e+308: must be a finite number >= 0 and <= 1000",
    ),
    "tiny mean": (
        {"kind": "lognormal", "mean": 1e-320, "cv": 5},
        "trace.prompt.mean=1e-320: must be a finite number >= 1e-09 and <= 1e+09",
    ),
    "zero mean": (
        {"kind": "lognormal", "mean": 0, "cv": 1},
        "trace.prompt.mean=0: must be a finite number >= 1e-09 and <= 1e+09",
    ),
    "NaN median": (
        {"kind": "lognormal", "median": math.nan, "sigma": 1},
        "trace.prompt.median=nan: must be a finite number >= 1e-09 and <= 1e+09",
    ),
    "infinite sigma": (
        {"kind": "lognormal", "median": 5, "sigma": math.inf},
        "trace.prompt.sigma=inf: must be a finite number >= 0 and <= 10000",
    ),
    "boolean sigma": (
        {"kind": "lognormal", "median": 5, "sigma": True},
        "trace.prompt.sigma=True: must be a finite number >= 0 and <= 10000",
    ),
}


@pytest.mark.parametrize(("spec", "message"), BAD.values(), ids=BAD.keys())
def test_a_bad_distribution_is_one_line_with_key_value_and_range(spec: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        length_distribution("trace.prompt", spec)
    assert str(caught.value) == message


@pytest.mark.parametrize("mean", [1e-9, 1e9])
@pytest.mark.parametrize("cv", [0, 1000])
def test_the_extremes_allowed_give_lengths_in_range(mean: float, cv: float) -> None:
    tokens = draw({"kind": "lognormal", "mean": mean, "cv": cv}, 100)
    assert 1 <= tokens.min() <= tokens.max() <= 10_000_000
