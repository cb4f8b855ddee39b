"""Keeps Python's cyclic garbage collector out of the event loop."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_YOUNG_OBJECTS = 100_000
"""Allocations between two collections while a simulation runs (Python's default is 700)."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect seldom inside the block: the engine makes no reference cycles of its own.

    Objects that exist already are left out of collections, and everything is put back at the end.
    A policy that makes cycles still has them collected.
    """
    thresholds = gc.get_threshold()
    is_ours = gc.get_freeze_count() == 0
    if is_ours:
        gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        if is_ours:
            gc.unfreeze()
