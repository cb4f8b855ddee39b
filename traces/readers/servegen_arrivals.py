"""Arrivals of a ServeGen client: so many in every window, with gaps of its distribution."""

import numpy as np

from sim.rng import stream
from sim.workload import FloatArray

_WINDOW_DRAWS_BITS = 40


class WindowStreams:
    """A random stream per window, all from one named stream.

    Windows lie so far apart in it that one's draws do not depend on how many another takes.

    Args:
        seed: the run's seed.
        name: name of the stream.
    """

    def __init__(self, seed: int, name: str) -> None:
        bits = stream(seed, name).bit_generator
        assert isinstance(bits, np.random.PCG64)
        self._bits = bits
        self._start = bits.state

    def of(self, window: int) -> np.random.Generator:
        """The stream of a window, from its start; the last one handed out must not be used on."""
        self._bits.state = self._start
        self._bits.advance(window << _WINDOW_DRAWS_BITS)
        return np.random.Generator(self._bits)


def num_arrivals(rng: np.random.Generator, expected: float) -> int:
    """An integer with mean `expected`, one of the two next to it; takes one draw."""
    draw = rng.random()
    nearest = round(expected)
    # A recorded rate is a count over the window's length, give or take a rounding error.
    if abs(expected - nearest) <= 1e-6:
        return nearest
    return int(expected + draw)


def arrival_shares(rng: np.random.Generator, family: str, shape: float, size: int) -> FloatArray:
    """When `size` requests arrive, as shares of the window, in order. Shape (size,).

    With gaps g_0 ... g_size of the family, request k arrives after (g_0 + ... + g_k) / (g_0 + ... +
    g_size) of the window: a renewal process given that just so many fall into the window. The
    scale of the gaps cancels.
    """
    draw = rng.standard_gamma if family == "Gamma" else rng.weibull
    gaps = draw(shape, size + 1)
    total = float(gaps.sum())
    if not total > 0:  # all gaps of a tiny shape may be too small for a double
        gaps, total = np.ones(size + 1), size + 1.0
    shares: FloatArray = np.minimum(np.cumsum(gaps)[:-1] / total, 1.0)
    return shares
