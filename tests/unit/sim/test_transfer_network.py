"""Ports that several transfers share, at exact times."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwmodels.links import Link
from sim.step_clock import ARRIVAL, StepClock
from sim.transfer_network import Port, start_transfer


def play(
    sends: Sequence[tuple[float, int, tuple[int, ...]]],
    rates: Sequence[float],
    latency_s: float = 0.0,
) -> tuple[list[float], list[Port]]:
    """Ends of (start in seconds, bytes, ports) and the ports after them."""
    clock, ports = StepClock(), [Port(rate) for rate in rates]
    ends = [0.0] * len(sends)

    def sender(row: int) -> None:
        start_s, num_bytes, on = sends[row]

        def done(end_s: float) -> None:
            ends[row] = end_s

        def send(_key: int) -> None:
            way = [ports[i] for i in on]
            start_transfer(clock, way, latency_s, num_bytes, start_s, done)

        clock.call_at(start_s, ARRIVAL, send)

    for row in range(len(sends)):
        sender(row)
    clock.run_calls()
    return ends, ports


def test_one_transfer_takes_latency_and_bytes_over_rate() -> None:
    ends, _ = play([(1.0, 40, (0,))], [10.0], latency_s=0.5)
    assert ends == [5.5]


def test_two_on_one_port_have_half_of_it_each() -> None:
    # 10 bytes alone, then 5 bytes per second each: 30 are left after 1 s, 20 + 20 until 5 s.
    ends, _ = play([(0.0, 40, (0,)), (1.0, 20, (0,))], [10.0])
    assert ends == [6.0, 5.0]


def test_a_transfer_runs_at_the_smaller_of_its_parts() -> None:
    # Two leave port 0 (5 bytes per second each); one of them enters port 1, which has 2.
    ends, _ = play([(0.0, 20, (0, 1)), (0.0, 20, (0,))], [10.0, 2.0])
    assert ends == [10.0, 4.0]


def test_transfers_on_other_ports_do_not_matter() -> None:
    ends, _ = play([(0.0, 20, (0,)), (0.0, 20, (1,))], [10.0, 10.0])
    assert ends == [2.0, 2.0]


def test_latency_takes_nothing_from_others() -> None:
    ends, _ = play([(0.0, 40, (0,)), (2.0, 10, (0,))], [10.0], latency_s=1.0)
    # The first has the port from 1 to 3 and half of it until the second has its 10 bytes, at 5.
    assert ends == [6.0, 5.0]


def test_busy_time_and_bytes_of_a_port() -> None:
    _, ports = play([(0.0, 10, (0, 1)), (5.0, 20, (0,))], [10.0, 10.0])
    assert [port.busy_until(10.0) for port in ports] == [3.0, 1.0]
    assert [port.num_bytes for port in ports] == [30, 10]


def test_no_transfer_ends_in_the_instant_of_its_start() -> None:
    ends, _ = play([(1.0, 0, (0,)), (2.0, 1, (0,))], [1e300])
    assert 1.0 < ends[0] < 1.000001 and 2.0 < ends[1] < 2.000001


@given(
    sends=st.lists(st.tuples(st.floats(0, 10), st.integers(1, 100)), min_size=1, max_size=12).map(
        sorted
    ),
    latency_s=st.sampled_from([0.0, 0.25]),
)
def test_one_shared_port_agrees_with_the_formula_for_links(
    sends: list[tuple[float, int]], latency_s: float
) -> None:
    ends, _ = play([(at, size, (0,)) for at, size in sends], [8.0], latency_s)
    link = Link(name="link", latency_s=latency_s, bytes_per_s=8.0)
    expected = link.shared_ends_s([at for at, _ in sends], [size for _, size in sends])
    assert ends == pytest.approx(expected.tolist(), rel=1e-9)


@given(
    sends=st.lists(
        st.tuples(
            st.floats(0, 10),
            st.integers(1, 100),
            st.sampled_from([(0, 2), (0, 3), (1, 2), (1, 3), (2,)]),
        ),
        min_size=1,
        max_size=12,
    ).map(sorted)
)
def test_every_byte_goes_through_every_port_once_and_no_faster_than_it_can(
    sends: list[tuple[float, int, tuple[int, ...]]],
) -> None:
    rates = [8.0, 5.0, 3.0, 8.0]
    ends, ports = play(sends, rates)
    for index, port in enumerate(ports):
        through = [row for row, send in enumerate(sends) if index in send[2]]
        size = sum(sends[row][1] for row in through)
        assert port.num_bytes == size
        assert port.carried_bytes == pytest.approx(size, rel=1e-9, abs=1e-9)
        busy_s = port.busy_until(max(ends))
        assert busy_s * port.bytes_per_s >= size * (1 - 1e-9)
        assert not port.transfers
