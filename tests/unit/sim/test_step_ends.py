"""The growing array of step ends."""

import numpy as np

from sim.step_ends import StepEnds


def test_view_and_array_are_one_memory() -> None:
    ends = StepEnds()
    ends.view[3] = 2.5
    ends.times[4] = 3.5
    assert (ends.times[3], ends.view[4]) == (2.5, 3.5)
    assert isinstance(ends.view[4], float)


def test_growing_keeps_what_was_written() -> None:
    ends = StepEnds()
    written = np.arange(float(ends.capacity))
    ends.times[:] = written
    ends.reserve(ends.capacity + 1)
    assert ends.capacity > len(written)
    assert len(ends.times) == len(ends.view) == ends.capacity
    assert ends.times[: len(written)].tolist() == written.tolist()
    ends.view[ends.capacity - 1] = 7.0
    assert ends.times[-1] == 7.0


def test_reserve_makes_room_for_more_than_half_again_and_never_shrinks() -> None:
    ends = StepEnds()
    ends.reserve(10_000)
    assert ends.capacity == 10_000
    times = ends.times
    ends.reserve(5)
    assert ends.times is times
    ends.reserve(10_001)
    assert ends.capacity == 15_000
