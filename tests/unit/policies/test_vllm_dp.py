"""vLLM's balancer: stale counts, its own guesses in between, one scan start per client."""

import pytest

from policies.routing.vllm_dp import VllmDp
from sim.errors import ConfigError
from sim.loads import DelayedView, PublishedView
from tests.unit.policies.clusters import choices, instances_of, live_view, play


def published(waiting: list[int], running: list[int]) -> PublishedView:
    """View that has published these counts once."""
    view = PublishedView(live_view(waiting, running), period_s=0.1)
    view.refresh(0.15)
    assert view.version == 1
    return view


def test_a_waiting_request_weighs_four_running_ones() -> None:
    assert choices(VllmDp(), published([1, 0], [0, 3]), 1) == [1]
    assert choices(VllmDp(), published([1, 0], [0, 5]), 1) == [0]


def test_ties_go_to_the_scan_start_and_do_not_rotate() -> None:
    assert choices(VllmDp(), published([1, 0], [0, 4]), 1) == [0]
    idle = live_view([0, 0, 0], [0, 0, 0])
    assert choices(VllmDp(), idle, 3) == [0, 0, 0]


def test_every_choice_adds_one_waiting_request_to_the_local_counts() -> None:
    # Scores 0, 3, 9 -> pick 0 (4), pick 1 (7), pick 0 (8), pick 1 (11), pick 0 (12), pick 2 (13).
    view = published([0, 0, 0], [0, 3, 9])
    assert choices(VllmDp(), view, 6) == [0, 1, 0, 1, 0, 2]


def test_before_the_first_publication_requests_spread_by_the_local_counts() -> None:
    view = PublishedView(live_view([0] * 3, [50, 0, 0]), period_s=0.1)
    assert choices(VllmDp(), view, 7) == [0, 1, 2, 0, 1, 2, 0]


def test_a_publication_replaces_the_local_counts() -> None:
    loads = live_view([0, 0], [0, 0])
    view = PublishedView(loads, period_s=0.1)
    router = VllmDp()
    assert choices(router, view, 3) == [0, 1, 0]  # local scores 8, 4
    loads.num_running[1] = 5
    view.refresh(0.1)
    assert choices(router, view, 3) == [0, 0, 1]  # 0, 5 -> 4, 5 -> 8, 5


def test_local_counts_never_reach_the_view() -> None:
    view = published([0, 1], [2, 0])
    choices(VllmDp(), view, 10)
    assert (view.num_waiting, view.num_running) == ([0, 1], [2, 0])


def test_a_report_of_a_delayed_view_counts_as_a_publication() -> None:
    loads = live_view([0, 0], [0, 0])
    view = DelayedView(loads, delay_s=0.2)
    router = VllmDp()
    assert choices(router, view, 2) == [0, 1]
    loads.num_waiting[0] = 3
    view.after_change(0, 1.0)
    view.refresh(1.2)
    assert choices(router, view, 4) == [1, 1, 1, 0]


def test_a_live_view_is_read_afresh_every_time() -> None:
    loads = live_view([0, 0], [0, 0])
    router = VllmDp()
    assert choices(router, loads, 2) == [0, 0]
    loads.num_running[0] = 1
    assert choices(router, loads, 2) == [1, 1]


def test_clients_start_their_scans_at_evenly_spaced_instances() -> None:
    # Eight instances, three clients: starts 0, 8 // 3 = 2, 16 // 3 = 5.
    view = published([0] * 8, [0] * 8)
    assert choices(VllmDp(num_clients=3), view, 3) == [0, 2, 5]


def test_each_client_counts_for_itself_and_for_the_others() -> None:
    # Client 0 (even ids) sees 0, 9 and adds 2 * 4 for each own choice; client 1 likewise, from
    # instance 1 on. Both: pick 0 (8), pick 0 (16), pick 1 (17), pick 0 (24), pick 1.
    router = VllmDp(num_clients=2)
    picked = choices(router, published([0, 0], [0, 9]), 10)
    assert picked[0::2] == [0, 0, 1, 0, 1]
    assert picked[1::2] == [0, 0, 1, 0, 1]


def test_clients_do_not_see_each_others_choices() -> None:
    view = published([0, 0], [0, 0])
    router = VllmDp(num_clients=2)
    assert choices(router, view, 1, first_id=0) == [0]
    assert choices(router, view, 1, first_id=0) == [1]
    assert choices(router, view, 2, first_id=1) == [1, 0]


ARRIVALS_S = [0.0, 1.0, 2.0, 11.0, 12.5]
OUTPUTS = [30, 1, 30, 1, 1]


def test_simulated_requests_follow_publications_and_the_guesses_in_between() -> None:
    # Published at 10 s. Until then the router knows its own choices only: 0, 1, and from the scan
    # start again 0. Published are then 2 and 0 running, so 1 at 11 s; that choice weighs 4 at
    # 12.5 s, although instance 1 has been idle since 12 s, so 0.
    router = VllmDp()
    result = play(router, ARRIVALS_S, outputs=OUTPUTS, max_num_seqs=8, publish_period_s=10.0)
    assert instances_of(result) == [0, 1, 0, 1, 0]


def test_without_publication_the_last_of_them_finds_the_idle_instance() -> None:
    # At 2 s both run one request (an arrival comes before a step end): scan start.
    result = play(VllmDp(), ARRIVALS_S, outputs=OUTPUTS, max_num_seqs=8)
    assert instances_of(result) == [0, 1, 0, 1, 1]


def test_fewer_than_one_client_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"routing\.num_clients=0: must be 1 to 65,536"):
        VllmDp(num_clients=0)
