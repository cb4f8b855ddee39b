"""What routers see: live counters, published ones, delayed ones."""

import pytest

from sim.loads import DelayedView, Loads, PublishedView
from tests.engine_runs import run_engine
from tests.twin.stories import Ask, workload_of
from tests.unit.sim.probes import Probe


def loads_of_two() -> Loads:
    loads = Loads(2)
    loads.kv_tokens_at = lambda instance, time_s: int(100 * instance + 10 * time_s)
    return loads


def change(loads: Loads, view: PublishedView | DelayedView, now_s: float, running: int) -> None:
    """Instance 1 gets a new number of running requests."""
    view.before_change(now_s)
    loads.num_running[1] = running
    loads.num_waiting[1] = running + 1
    loads.num_requests[1] = 2 * running + 1
    loads.queued_prefill_tokens[1] = 7 * running
    view.after_change(1, now_s)


def test_the_live_view_brings_kv_tokens_to_now() -> None:
    loads = loads_of_two()
    loads.now_s = 2.5
    assert list(loads.kv_tokens()) == [25, 125]
    assert loads.version == 0


def test_a_published_view_shows_the_last_multiple_of_its_period() -> None:
    loads = loads_of_two()
    view = PublishedView(loads, 0.5)
    change(loads, view, 0.25, running=3)
    view.refresh(0.4375)
    assert (view.num_running, view.version) == ([0, 0], 0)
    change(loads, view, 0.75, running=5)  # what was true at 0.5 is published before
    view.refresh(0.75)
    assert (view.num_running, view.version) == ([0, 3], 1)
    assert (view.num_waiting, view.num_requests) == ([0, 4], [0, 7])
    assert view.queued_prefill_tokens == [0, 21]
    assert list(view.kv_tokens()) == [5, 105]
    view.refresh(1.0)
    assert (view.num_running, view.version) == ([0, 5], 2)


def test_a_change_at_a_publishing_instant_is_in_the_next_publication() -> None:
    loads = loads_of_two()
    view = PublishedView(loads, 0.5)
    change(loads, view, 0.5, running=3)
    view.refresh(0.5)
    assert view.num_running == [0, 0]
    view.refresh(0.9375)
    assert view.num_running == [0, 0]
    view.refresh(1.0)
    assert view.num_running == [0, 3]


def test_a_published_view_is_a_copy() -> None:
    loads = loads_of_two()
    view = PublishedView(loads, 0.5)
    view.refresh(0.5)
    loads.num_running[0] = 9
    loads.num_waiting[0] = 9
    loads.num_requests[0] = 9
    loads.queued_prefill_tokens[0] = 9
    assert view.num_running == view.num_waiting == view.num_requests == [0, 0]
    assert view.queued_prefill_tokens == [0, 0]


def test_after_a_long_pause_only_the_latest_publication_counts() -> None:
    loads = loads_of_two()
    view = PublishedView(loads, 0.5)
    view.refresh(7.75)
    assert view.version == 1
    assert list(view.kv_tokens()) == [75, 175]


def test_a_delayed_view_shows_a_change_exactly_after_the_delay() -> None:
    loads = loads_of_two()
    view = DelayedView(loads, 0.5)
    change(loads, view, 0.25, running=3)
    change(loads, view, 0.5, running=4)
    view.refresh(0.71875)
    assert (view.num_running, view.version) == ([0, 0], 0)
    view.refresh(0.75)
    assert view.num_running == [0, 3]
    assert (view.num_waiting, view.num_requests) == ([0, 4], [0, 7])
    assert view.queued_prefill_tokens == [0, 21]
    assert list(view.kv_tokens()) == [0, 102]
    view.refresh(0.984375)
    assert view.num_running == [0, 3]
    view.refresh(1.0)
    assert (view.num_running, view.num_requests) == ([0, 4], [0, 9])


SIX = [Ask(0, 4, 3), *(Ask(t, 4, 1) for t in (0.25, 0.75, 1.0, 2.5, 4.25))]
"""With steps of one second and three seats; the last one finds the system empty."""


@pytest.mark.parametrize(
    ("options", "num_running", "num_waiting"),
    [
        ({}, [0, 1, 1, 1, 2, 0], [0, 0, 1, 2, 0, 0]),
        # as of 0, 0, 0, 1 (arrivals and plans at 1 not included), 2 and 4
        ({"publish_period_s": 1.0}, [0, 0, 0, 1, 3, 1], [0, 0, 0, 2, 1, 0]),
        # as of -0.5, -0.25, 0.25, 0.5, 2 and 3.75
        ({"view_delay_s": 0.5}, [0, 0, 1, 1, 2, 1], [0, 0, 1, 1, 0, 0]),
    ],
    ids=["live", "published", "delayed"],
)
def test_a_router_sees_the_cluster_through_its_view(
    options: dict[str, float], num_running: list[int], num_waiting: list[int]
) -> None:
    probe = Probe()
    run_engine(workload_of(SIX), router=probe, seats=3, **options)
    assert [counts[0] for counts in probe.num_running] == num_running
    assert [counts[0] for counts in probe.num_waiting] == num_waiting
