"""How fast SimPy itself is on this machine, the yardstick for all other rates."""

import time
from collections.abc import Generator
from typing import Any

import simpy

REFERENCE_PER_S = 1.3e6
"""Process timeouts per second of the machine for which the targets are stated."""


def timeouts_per_s(count: int = 200_000) -> float:
    """Timeouts per second of one SimPy process."""

    def ticker(env: simpy.Environment) -> Generator[simpy.Event, Any, None]:
        for _ in range(count):
            yield env.timeout(1)

    env = simpy.Environment()
    env.process(ticker(env))
    start = time.perf_counter()
    env.run()
    return count / (time.perf_counter() - start)
