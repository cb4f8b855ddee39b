"""Links: times alone, and fair shares when messages overlap."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwmodels.device import load_profile
from hwmodels.links import Link, host_link, network_link, peer_link
from sim.errors import ConfigError

LINK = Link(name="wire", latency_s=1.0, bytes_per_s=10.0)


def test_alone_a_message_takes_latency_and_bytes_over_rate() -> None:
    assert LINK.time_s(50) == 6.0
    assert LINK.time_s([0, 10]).tolist() == [1.0, 2.0]
    assert LINK.shared_ends_s([3.0], [50]).tolist() == [9.0]


def test_two_messages_share_the_rate_by_hand() -> None:
    # Bytes of the first flow from 1 s, of the second from 3 s, when 20 of 50 are through. Then both
    # at 5 bytes/s: the second needs 4 s for its 20 (ends at 7), the first has 10 left then.
    assert LINK.shared_ends_s([0.0, 2.0], [50, 20]).tolist() == pytest.approx([8.0, 7.0])
    assert LINK.shared_ends_s([2.0, 0.0], [20, 50]).tolist() == pytest.approx([7.0, 8.0])


def test_messages_sent_together_end_by_size() -> None:
    assert LINK.shared_ends_s([0, 0, 0], [10, 10, 40]).tolist() == pytest.approx([4.0, 4.0, 7.0])


def test_a_gap_between_messages_leaves_the_link_idle() -> None:
    assert LINK.shared_ends_s([0.0, 100.0], [10, 10]).tolist() == pytest.approx([2.0, 102.0])


@given(messages=st.lists(st.tuples(st.floats(0, 50), st.floats(0, 200)), min_size=1, max_size=12))
def test_sharing_loses_no_time_and_nobody_beats_a_link_of_his_own(
    messages: list[tuple[float, float]],
) -> None:
    starts, moved = np.array(messages).T
    ends = LINK.shared_ends_s(starts.tolist(), moved.tolist())
    assert (ends >= starts + LINK.time_s(moved) - 1e-9).all()
    # Work conservation: one queue served in any order empties at the same time.
    free_s = 0.0
    for start_s, num_bytes in sorted(messages):
        free_s = max(free_s, start_s + 1.0) + num_bytes / 10.0
    assert ends.max() == pytest.approx(free_s)


def test_links_of_a_device_follow_its_profile() -> None:
    device = load_profile("h100_sxm")
    assert peer_link(device).bytes_per_s == pytest.approx(360e9, rel=0.01)
    assert host_link(device).bytes_per_s < device.pcie_bytes_per_s
    assert network_link().time_s(36e6) == pytest.approx(1.02e-3)
    assert network_link(5e9, 0.0).time_s(5e9) == 1.0


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"latency_s": -1.0}, "latency_s must be at least 0"),
        ({"bytes_per_s": 0.0}, "bytes_per_s must be above 0"),
    ],
)
def test_impossible_links_are_refused(changes: dict[str, float], line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        Link(**{"name": "wire", "latency_s": 0.0, "bytes_per_s": 1.0, **changes})  # type: ignore[arg-type]


def test_lists_must_fit_each_other() -> None:
    with pytest.raises(ConfigError, match="equally long"):
        LINK.shared_ends_s([0.0], [1.0, 2.0])
    with pytest.raises(ConfigError, match="num_bytes"):
        LINK.shared_ends_s([0.0], [-1.0])
