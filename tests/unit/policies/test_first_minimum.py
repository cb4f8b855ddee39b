"""The cyclic scan for the first minimum."""

import pytest

from policies.routing.first_minimum import first_minimum


@pytest.mark.parametrize(
    ("loads", "start", "choice"),
    [
        ([3, 1, 2], 0, 1),
        ([1, 1, 1], 0, 0),
        ([1, 1, 1], 2, 2),
        ([1, 1, 1], 3, 0),
        ([1, 2, 1, 2], 1, 2),
        ([1, 2, 1, 2], 3, 0),
        ([2, 2, 0], 0, 2),
        ([7], 0, 0),
        ([7], 1, 0),
    ],
)
def test_scan_begins_at_start_and_wraps_around(loads: list[int], start: int, choice: int) -> None:
    assert first_minimum(loads, start) == choice
