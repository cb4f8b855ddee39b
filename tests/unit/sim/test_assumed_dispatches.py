"""A router that adds what it has sent itself to an old view."""

import pytest

from policies.routing.least_requests import LeastRequests
from policies.routing.lmetric import LMetric
from sim.errors import ConfigError
from sim.interfaces import ClusterView, Router
from sim.loads import DelayedView, Loads, PublishedView
from sim.request import Request
from tests.engine_runs import run_engine
from tests.twin.stories import Ask, workload_of


class Sees(Router):
    """Always the first instance; notes what it sees of it."""

    uses_prefix_match = True

    def __init__(self) -> None:
        self.seen: list[tuple[int, int, int]] = []

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        cluster.matched_tokens(request)
        hits = cluster.queued_hit_tokens[0]
        self.seen.append((cluster.num_requests[0], cluster.queued_prefill_tokens[0], hits))
        return 0


def seen(*asks: Ask, **options: float) -> list[tuple[int, int, int]]:
    router = Sees()
    workload = workload_of(asks, [(-1, 16)])
    run_engine(workload, router=router, assume_dispatches=True, num_instances=2, **options)
    return router.seen


def test_what_was_sent_counts_until_the_next_publication() -> None:
    asks = [Ask(t, 20, 9, (0,)) for t in (0.2, 0.4, 0.6, 5.0)]
    # Published at 5 s: all three run, their prompts are prefilled.
    assert seen(*asks, publish_period_s=5.0) == [(0, 0, 0), (1, 20, 0), (2, 40, 0), (3, 0, 0)]


def test_what_was_sent_counts_until_its_report_arrives() -> None:
    asks = [Ask(t, 20, 9, (0,)) for t in (0.25, 0.5, 0.75, 2.25, 2.5, 3.75)]
    assert seen(*asks, view_delay_s=2.0) == [
        (0, 0, 0),
        (1, 20, 0),
        (2, 40, 0),
        # The first one's own prefill is reported from 0.25 s on; two others were sent since.
        (3, 40, 0),
        # Now the second one's wait is reported; the third and the fourth, which found 16 tokens,
        # were sent since.
        (4, 60, 16),
        # Until 1.75 s all three began to run. Two were sent since, and found 16 tokens each.
        (5, 40, 32),
    ]


def test_assumed_hits_are_taken_from_what_waits() -> None:
    loads = Loads(2)
    for view in (PublishedView(loads, 1.0), DelayedView(loads, 1.0)):
        view.assume(1, 100, 64, 0.5)
        view.assume(1, 10, 0, 0.5)
        assert (view.num_waiting, view.num_requests) == ([0, 2], [0, 2])
        assert (view.queued_prefill_tokens, view.queued_hit_tokens) == ([0, 110], [0, 64])
        assert view.num_running == [0, 0]


def test_a_blind_burst_is_spread() -> None:
    asks = [Ask(0.1 * k, 8, 5) for k in range(6)]
    for router in (LeastRequests, LMetric):
        result = run_engine(
            workload_of(asks),
            router=router(),
            num_instances=3,
            view_delay_s=100.0,
            assume_dispatches=True,
        )
        assert result.requests.instance.tolist() == [0, 1, 2, 0, 1, 2]


def test_a_live_view_needs_no_assumption() -> None:
    with pytest.raises(
        ConfigError, match=r"routing.assume_dispatches=true has no effect on a live"
    ):
        run_engine(workload_of([Ask(0, 4, 1)]), assume_dispatches=True)
