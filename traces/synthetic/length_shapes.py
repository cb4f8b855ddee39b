"""Shapes of distributions of token counts; `traces.synthetic.lengths` builds and checks them."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sim.workload import FloatArray, IntArray
from traces.options import MAX_TOKENS
from traces.synthetic.popularity import sample_weighted


class LengthDistribution(Protocol):
    """A distribution of integers >= 1."""

    def sample(self, rng: np.random.Generator, size: int) -> IntArray:
        """`size` independent draws. Shape (size,)."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always `value`."""

    value: int

    def sample(self, rng: np.random.Generator, size: int) -> IntArray:
        """`size` times the value; draws nothing."""
        return np.full(size, self.value, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every integer from `low` to `high`, both included, with equal probability."""

    low: int
    high: int

    def sample(self, rng: np.random.Generator, size: int) -> IntArray:
        """`size` independent draws. Shape (size,)."""
        return rng.integers(self.low, self.high, size, dtype=np.int64, endpoint=True)


@dataclass(frozen=True, slots=True)
class LogNormal:
    """exp of a normal with mean ln(median) and deviation sigma, rounded, then clipped."""

    median: float
    sigma: float
    low: int
    high: int

    def sample(self, rng: np.random.Generator, size: int) -> IntArray:
        """`size` independent draws. Shape (size,)."""
        log_tokens = math.log(self.median) + self.sigma * rng.standard_normal(size)
        # Clipped before exp: a wide sigma must not overflow.
        bounded = np.clip(log_tokens, -1.0, math.log(MAX_TOKENS) + 1.0)
        return _rounded(np.exp(bounded), self.low, self.high)


@dataclass(frozen=True, slots=True)
class Gamma:
    """Gamma with that mean and coefficient of variation (1: exponential), rounded, then clipped."""

    mean: float
    cv: float
    low: int
    high: int

    def sample(self, rng: np.random.Generator, size: int) -> IntArray:
        """`size` independent draws. Shape (size,)."""
        variance = self.cv * self.cv
        tokens = rng.standard_gamma(1 / variance, size) * (variance * self.mean)
        return _rounded(tokens, self.low, self.high)


@dataclass(frozen=True, slots=True)
class Zipf:
    """P(k) proportional to k ** -exponent for k from `low` to `high`, both included."""

    exponent: float
    low: int
    high: int

    def sample(self, rng: np.random.Generator, size: int) -> IntArray:
        """`size` independent draws. Shape (size,)."""
        # Over the smallest one, so that a large exponent does not underflow to 0 everywhere.
        tokens = np.arange(self.low, self.high + 1, dtype=np.float64)
        return self.low + sample_weighted(rng, (tokens / self.low) ** -self.exponent, size)


@dataclass(frozen=True, slots=True)
class Empirical:
    """One of `values`, with probability proportional to its weight."""

    values: tuple[int, ...]
    weights: tuple[float, ...]

    def sample(self, rng: np.random.Generator, size: int) -> IntArray:
        """`size` independent draws. Shape (size,)."""
        values = np.array(self.values, dtype=np.int64)
        return values[sample_weighted(rng, np.array(self.weights), size)]


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Tokens at given shares of the distribution, linear between them, rounded."""

    shares: tuple[float, ...]
    values: tuple[int, ...]

    def sample(self, rng: np.random.Generator, size: int) -> IntArray:
        """`size` independent draws. Shape (size,)."""
        tokens = np.interp(rng.random(size), self.shares, self.values)
        return _rounded(tokens, self.values[0], self.values[-1])


@dataclass(frozen=True, slots=True)
class Mixture:
    """A draw of one of `parts`, chosen with probability proportional to its weight."""

    weights: tuple[float, ...]
    parts: tuple[LengthDistribution, ...]

    def sample(self, rng: np.random.Generator, size: int) -> IntArray:
        """`size` independent draws. Shape (size,)."""
        chosen = sample_weighted(rng, np.array(self.weights), size)
        tokens = np.empty(size, dtype=np.int64)
        for i, part in enumerate(self.parts):
            rows = np.flatnonzero(chosen == i)
            tokens[rows] = part.sample(rng, len(rows))
        return tokens


def _rounded(tokens: FloatArray, low: int, high: int) -> IntArray:
    rounded: IntArray = np.clip(np.rint(tokens), low, high).astype(np.int64)
    return rounded
