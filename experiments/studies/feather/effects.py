"""Main effects and interactions of a two-level factorial, on a logarithmic scale."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import exp, log, prod

from experiments.stats.intervals import Interval, mean_interval


def effect_intervals(
    ratios: Mapping[tuple[int, ...], Sequence[float]],
) -> dict[tuple[int, ...], Interval]:
    """Factor by which the geometric mean changes from the lower to the upper level of a contrast.

    Args:
        ratios: values of each seed by the signs (+1, -1) of the factors, all combinations.

    Returns:
        By the places of the factors: mains first, then pairs, then all further ones.
    """
    num_factors = len(next(iter(ratios)))
    contrasts = [
        places
        for size in range(1, num_factors + 1)
        for places in combinations(range(num_factors), size)
    ]
    return {places: _effect(ratios, places) for places in contrasts}


def _effect(ratios: Mapping[tuple[int, ...], Sequence[float]], places: tuple[int, ...]) -> Interval:
    num_seeds = len(next(iter(ratios.values())))
    half = len(ratios) / 2
    logs = [
        sum(prod(signs[k] for k in places) * log(values[seed]) for signs, values in ratios.items())
        / half
        for seed in range(num_seeds)
    ]
    found = mean_interval(logs)
    return Interval(exp(found.mean), exp(found.low), exp(found.high), found.num_values)
