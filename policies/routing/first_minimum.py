"""Deterministic tie-breaking shared by routers that pick the least loaded instance."""

from collections.abc import Sequence


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
