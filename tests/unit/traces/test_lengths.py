"""Length distributions: moments against theory, and refusals."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from sim.errors import ConfigError
from sim.rng import stream
from traces.synthetic.lengths import length_distribution, length_or_number

N = 200_000

KINDS = "fixed, uniform, lognormal, gamma, exponential, zipf, empirical, mixture"


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


@pytest.mark.parametrize("cv", [0.5, 1.0, 1.5])
def test_gamma_has_the_mean_and_the_spread_asked_for(cv: float) -> None:
    tokens = draw({"kind": "gamma", "mean": 2000, "cv": cv})
    assert tokens.mean() == pytest.approx(2000, rel=4 * cv / math.sqrt(N))
    # The kurtosis of a gamma law is 3 + 6 cv^2.
    error = math.sqrt((2 + 6 * cv**2) / N) / 2
    assert tokens.std() / 2000 == pytest.approx(cv, rel=4 * error)
    law = stats.gamma(cv**-2, scale=2000 * cv**2)
    assert (tokens <= 500).mean() == pytest.approx(law.cdf(500.5), abs=4 * 0.5 / math.sqrt(N))


def test_exponential_is_memoryless_up_to_rounding_and_clipped() -> None:
    tokens = draw({"kind": "exponential", "mean": 1000})
    for least in (1, 1000, 3000):
        beyond = math.exp(-(least - 0.5) / 1000)
        assert (tokens >= least).mean() == pytest.approx(beyond, abs=4 * 0.5 / math.sqrt(N))
    clipped = draw({"kind": "exponential", "mean": 1000, "low": 100, "high": 2000})
    assert (clipped.min(), clipped.max()) == (100, 2000)


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.5])
def test_zipf_frequencies_fall_with_the_power_of_the_length(exponent: float) -> None:
    tokens = draw({"kind": "zipf", "low": 5, "high": 40, "exponent": exponent})
    weights = [k**-exponent for k in range(5, 41)]
    expected = np.array(weights) / sum(weights) * N
    counts = np.bincount(tokens, minlength=41)[5:]
    assert counts.sum() == N
    assert stats.chisquare(counts, expected).pvalue > 1e-3


def test_a_steep_zipf_far_from_one_still_has_its_shape() -> None:
    tokens = draw({"kind": "zipf", "low": 10_000, "high": 20_000, "exponent": 100})
    weights = np.exp(-100 * np.log(np.arange(10_000, 20_001) / 10_000))
    mean = 10_000 + float((weights * np.arange(10_001)).sum() / weights.sum())
    assert tokens.mean() == pytest.approx(mean, abs=4 * 105 / math.sqrt(N))


def test_empirical_values_come_as_often_as_they_weigh() -> None:
    tokens = draw({"kind": "empirical", "values": [7, 3, 900], "weights": [1, 0, 3]})
    assert (tokens == 3).sum() == 0
    assert (tokens == 900).mean() == pytest.approx(0.75, abs=4 * math.sqrt(0.1875 / N))
    assert (tokens == 7).sum() + (tokens == 900).sum() == N
    even = draw({"kind": "empirical", "values": [1, 2]})
    assert (even == 1).mean() == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(N))


def test_quantiles_are_met_and_linear_between() -> None:
    tokens = draw({"kind": "empirical", "quantiles": [[0, 10], [0.5, 110], [0.9, 910], [1, 9910]]})
    for share, value in [(0.25, 60), (0.5, 110), (0.7, 510), (0.9, 910), (0.95, 5410)]:
        error = math.sqrt(share * (1 - share) / N)
        # Rounding moves a bound by half a token, which is at most 0.5 / 200 of the share.
        assert (tokens <= value).mean() == pytest.approx(share, abs=4 * error + 0.5 / 200)
    assert tokens.min() >= 10
    assert 9800 < tokens.max() <= 9910


def test_a_mixture_has_the_mean_and_variance_of_its_parts_together() -> None:
    short = {"weight": 3, "kind": "uniform", "low": 1, "high": 9}
    long = {"weight": 1, "kind": "fixed", "value": 101}
    tokens = draw({"kind": "mixture", "parts": [short, long]})
    mean = 0.75 * 5 + 0.25 * 101
    variance = 0.75 * (9**2 - 1) / 12 + 0.75 * 0.25 * (101 - 5) ** 2
    assert tokens.mean() == pytest.approx(mean, abs=4 * math.sqrt(variance / N))
    # Nearly two values only: the variance follows the share p of long ones as p (1 - p) does.
    error = (1 - 2 * 0.25) / (0.75 * 0.25) * math.sqrt(0.75 * 0.25 / N)
    assert tokens.var() == pytest.approx(variance, rel=4 * error)
    assert set(tokens.tolist()) == {*range(1, 10), 101}


def test_a_mixture_of_mixtures_and_a_bound_reach_all_parts() -> None:
    inner = {"weight": 1, "kind": "mixture", "parts": [{"weight": 1, "kind": "fixed", "value": 4}]}
    assert draw({"kind": "mixture", "parts": [inner]}, 3).tolist() == [4, 4, 4]
    with pytest.raises(ConfigError, match=r"^k\.parts\[0\]\.parts\[0\]\.value=4: must be .* to 3$"):
        length_distribution("k", {"kind": "mixture", "parts": [inner]}, 3)


def test_a_length_may_be_a_number() -> None:
    assert length_or_number("k", 12).sample(stream(3, "test"), 2).tolist() == [12, 12]
    uniform = length_or_number("k", {"kind": "uniform", "low": 1, "high": 2})
    assert set(uniform.sample(stream(3, "test"), 50).tolist()) == {1, 2}
    for bad in (0, 1.5, "12", None, True):
        with pytest.raises(ConfigError, match=r"^k=.*: must be an integer from 1 to 10,000,000$"):
            length_or_number("k", bad)


def test_lengths_are_rounded_to_the_nearest_token() -> None:
    for median, tokens in [(2.6, 3), (2.4, 2), (3.0, 3)]:
        assert draw({"kind": "lognormal", "median": median, "sigma": 0}, 1).tolist() == [tokens]
    even = draw({"kind": "empirical", "quantiles": [[0, 1], [1, 3]]})
    assert (even == 2).mean() == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(N))


BAD = {
    "not a mapping": (512, "trace.prompt=512: must be a mapping such as {kind: fixed, value: 9}"),
    "no kind": ({"low": 1}, f"trace.prompt.kind=None: must be one of {KINDS}"),
    "unknown kind": (
        {"kind": "normal"},
        f"trace.prompt.kind='normal': must be one of {KINDS}",
    ),
    "list as kind": ({"kind": []}, f"trace.prompt.kind=[]: must be one of {KINDS}"),
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
    "gamma without cv": (
        {"kind": "gamma", "mean": 5},
        "trace.prompt has mean: kind gamma needs mean and cv; optional low, high",
    ),
    "gamma of no spread": (
        {"kind": "gamma", "mean": 5, "cv": 0},
        "trace.prompt.cv=0: must be a finite number >= 0.001 and <= 1000",
    ),
    "exponential with cv": (
        {"kind": "exponential", "mean": 5, "cv": 1},
        "trace.prompt has cv, mean: kind exponential needs mean; optional low, high",
    ),
    "zipf without end": (
        {"kind": "zipf", "low": 1, "exponent": 1},
        "trace.prompt has exponent, low: kind zipf needs low, high, exponent",
    ),
    "rising zipf": (
        {"kind": "zipf", "low": 1, "high": 9, "exponent": -1},
        "trace.prompt.exponent=-1: must be a finite number >= 0 and <= 100",
    ),
    "no values": (
        {"kind": "empirical", "values": []},
        "trace.prompt.values=[]: must be a list of 1 to 1,000,000 entries",
    ),
    "values and quantiles": (
        {"kind": "empirical", "values": [1], "quantiles": [[0, 1], [1, 2]]},
        "trace.prompt has quantiles, values: kind empirical needs values, optional weights; or "
        "quantiles",
    ),
    "a value of 0": (
        {"kind": "empirical", "values": [5, 0]},
        "trace.prompt.values[1]=0: must be an integer from 1 to 10,000,000",
    ),
    "a weight too few": (
        {"kind": "empirical", "values": [5, 6], "weights": [1]},
        "trace.prompt.weights has 1 entries: must be one for each of the 2 values",
    ),
    "a negative weight": (
        {"kind": "empirical", "values": [5, 6], "weights": [1, -1]},
        "trace.prompt.weights[1]=-1: must be a finite number >= 0 and <= 1e+12",
    ),
    "weights of 0": (
        {"kind": "empirical", "values": [5], "weights": [0]},
        "trace.prompt.weights: the weights must not all be 0",
    ),
    "no pair": (
        {"kind": "empirical", "quantiles": [[0, 1], 7]},
        "trace.prompt.quantiles[1]=7: must be a pair [share, tokens]",
    ),
    "shares out of order": (
        {"kind": "empirical", "quantiles": [[0, 1], [0.5, 4], [0.5, 5], [1, 6]]},
        "trace.prompt.quantiles[2][0]=0.5: must be a finite number > 0.5 and <= 1",
    ),
    "falling tokens": (
        {"kind": "empirical", "quantiles": [[0, 9], [1, 8]]},
        "trace.prompt.quantiles[1][1]=8: must be an integer from 9 to 10,000,000",
    ),
    "half of the shares": (
        {"kind": "empirical", "quantiles": [[0, 9], [0.5, 10]]},
        "trace.prompt.quantiles=[[0, 9], [0.5, 10]]: must begin at share 0 and end at share 1",
    ),
    "a part without weight": (
        {"kind": "mixture", "parts": [{"kind": "fixed", "value": 1}]},
        "trace.prompt.parts[0]={'kind': 'fixed', 'value': 1}: must be a mapping with weight and "
        "kind",
    ),
    "a bad part": (
        {"kind": "mixture", "parts": [{"weight": 1, "kind": "fixed", "value": 0}]},
        "trace.prompt.parts[0].value=0: must be an integer from 1 to 10,000,000",
    ),
    "a bad weight": (
        {"kind": "mixture", "parts": [{"weight": "1", "kind": "fixed", "value": 1}]},
        "trace.prompt.parts[0].weight='1': must be a finite number >= 0 and <= 1e+12",
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
