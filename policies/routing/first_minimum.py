"""Deterministic tie-breaking shared by routers that pick the least loaded instance."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def first_minimum(loads: Sequence[float], start: int) -> int:
    """First index of `min(loads)` in the cyclic scan start, start + 1, ..., start - 1.

    A router that passes the index after its last choice spreads ties over all tied instances.

    Args:
        loads: one value per instance, not empty.
        start: where the scan begins, in [0, len(loads)].
    """
    least = min(loads)
    try:
        return loads.index(least, start)
    except ValueError:
        return loads.index(least)


def first_minimum_of_array(loads: npt.NDArray[np.int64], start: int) -> int:
    """The same as `first_minimum`. Shape of `loads` (instances,)."""
    first = int(loads.argmin())
    if not 0 < start < len(loads) or first >= start:
        return first
    later = start + int(loads[start:].argmin())
    return later if loads[later] == loads[first] else first
