"""Hand-written stories in which requests wait for others."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sim.workload import Workload
from tests.twin.stories import Ask, workload_of


def loop_of(
    asks: Sequence[Ask],
    nodes: Sequence[tuple[int, int]] = (),
    *,
    after: Sequence[int] | None = None,
    delay_s: Sequence[float] | None = None,
    concurrency: int | None = None,
) -> Workload:
    """Workload of `asks` in a closed loop."""
    workload = replace(
        workload_of(asks, nodes),
        after=None if after is None else np.array(after, dtype=np.int64),
        delay_s=None if delay_s is None else np.array(delay_s, dtype=np.float64),
        concurrency=concurrency,
    )
    workload.validate()
    return workload
