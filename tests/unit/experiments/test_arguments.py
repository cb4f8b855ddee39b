"""Overrides may stand on both sides of flags."""

import pytest

from experiments.arguments import overrides_first


@pytest.mark.parametrize(
    ("given", "ordered"),
    [
        ("a=1 -m b=2", "a=1 b=2 -m"),
        ("-m b=2 ~c", "b=2 ~c -m"),
        ("--cfg job a=1", "a=1 --cfg job"),
        ("--cfg=job a=1", "a=1 --cfg=job"),
        ("-cd conf a=1 --resolve b=2", "a=1 b=2 -cd conf --resolve"),
        ("--info a=1", "a=1 --info"),
        ("--info config a=1", "a=1 --info config"),
        ("-m -- a=1", "-m -- a=1"),
    ],
)
def test_overrides_come_first_and_flags_keep_their_values(given: str, ordered: str) -> None:
    assert overrides_first(given.split()) == ordered.split()
