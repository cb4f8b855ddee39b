"""Random workloads whose arrivals depend on the ends of other requests."""

from dataclasses import replace

import numpy as np

from sim.prefix_tree import NO_NODE
from sim.workload import FloatArray, IntArray, Workload
from tests.twin.workloads import EngineLimits, random_workload


def random_loop(
    seed: int, *, structured: bool, step_s: float = 1.0, max_requests: int = 60
) -> tuple[Workload, EngineLimits]:
    """As `random_workload`, in a closed loop: follow-ups, a number of users, or both.

    A prompt that continues an earlier prompt and output often waits for that request. Delays are
    often 0 and, where `structured`, whole steps.
    """
    workload, limits = random_workload(
        seed, structured=structured, step_s=step_s, max_requests=max_requests
    )
    rng = np.random.default_rng([seed, int(structured), 1])
    n = workload.num_requests
    kind = int(rng.integers(3))
    after = None if kind == 0 else _after(rng, workload)
    concurrency = None if kind == 1 else int(rng.integers(1, 9))
    delay_s = None if rng.random() < 0.2 else _delays(rng, n, step_s, structured)
    loop = replace(workload, after=after, delay_s=delay_s, concurrency=concurrency)
    loop.validate()
    return loop, limits


def _after(rng: np.random.Generator, workload: Workload) -> IntArray:
    """Chains and trees: who wrote the deepest output in the prompt, or some earlier row."""
    assert workload.output_node is not None
    share, reach = float(rng.choice([0.3, 0.8])), int(rng.choice([1, 3, 50]))
    writers: dict[int, int] = {}
    after = np.full(workload.num_requests, -1, dtype=np.int64)
    for row in range(workload.num_requests):
        found = [writers[node] for node in workload.path(row) if node in writers]
        if row and rng.random() < share:
            after[row] = found[-1] if found else max(0, row - int(rng.integers(1, reach + 1)))
        if workload.output_node[row] != NO_NODE:
            writers[int(workload.output_node[row])] = row
    return after


def _delays(rng: np.random.Generator, n: int, step_s: float, structured: bool) -> FloatArray:
    delays = rng.integers(0, 4, n) * step_s if structured else rng.exponential(2 * step_s, n)
    is_none = rng.random(n) < float(rng.choice([0.2, 0.7, 1.0]))
    chosen: FloatArray = np.where(is_none, 0.0, delays)
    return chosen
