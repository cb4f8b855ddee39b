"""Named random streams: independent, reproducible, insensitive to each other's use.

The seed of a stream depends on the run's seed and on the stream's name only, so that adding a
consumer of randomness changes no other one's draws (common random numbers across policies).
"""

import hashlib

import numpy as np

from sim.errors import ConfigError


def stream(seed: int, name: str) -> np.random.Generator:
    """Generator of the stream `name` under the run's `seed`.

    Args:
        seed: the run's seed, any non-negative integer.
        name: dotted name of the consumer, for example ``"trace.arrivals"``.

    Raises:
        ConfigError: the seed is negative.
    """
    if seed < 0:
        raise ConfigError(f"seed={seed} of {name}: must be a non-negative integer")
    digest = hashlib.sha256(name.encode()).digest()
    words = [int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4)]
    return np.random.default_rng(np.random.SeedSequence([seed, *words]))
