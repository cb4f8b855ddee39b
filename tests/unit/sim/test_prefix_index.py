"""The index of what instances hold, walked by hand; what a router may not ask."""

from typing import Any

import numpy as np
import pytest

from policies.routing.lmetric import LMetric
from sim.errors import InvalidDecisionError
from sim.interfaces import ClusterView, Router
from sim.prefix_index import PrefixIndex
from sim.prefix_tree import BlockGeometry, PrefixTree
from sim.request import Request
from tests.engine_runs import run_engine
from tests.twin.stories import Ask, workload_of

# Blocks of 4 tokens: node 0 has blocks 0 and 1 (8 of its 10 tokens), node 1 block 2, node 2 blocks
# 2 to 4.
NODES = [(-1, 10), (0, 3), (0, 10)]


def index_of(num_instances: int) -> PrefixIndex:
    parents, tokens = (np.array(column) for column in zip(*NODES, strict=True))
    return PrefixIndex(num_instances, BlockGeometry.of(PrefixTree.from_parents(parents, tokens), 4))


def hold(index: PrefixIndex, node: int, instance: int, num_leading: int) -> None:
    if num_leading:
        index.leading[instance][node] = num_leading
    else:
        index.leading[instance].pop(node, None)
    index.note(node, instance, num_leading)


def test_a_match_ends_where_an_instance_lacks_a_block() -> None:
    index = index_of(4)
    for instance in (0, 1, 2):
        hold(index, 0, instance, 2)
    hold(index, 0, 3, 1)
    hold(index, 2, 0, 3)
    hold(index, 2, 1, 2)
    hold(index, 2, 3, 3)
    assert index.matched_tokens((0, 2), 100) == [20, 16, 8, 4]
    assert index.matched_tokens((0, 2), 4) == [16, 16, 8, 4]
    assert index.matched_tokens((0, 2), 1) == [4, 4, 4, 4]
    assert index.matched_tokens((0, 1), 100) == [8, 8, 8, 4]
    assert index.matched_tokens((), 100) == [0, 0, 0, 0]


def test_what_everybody_holds_and_what_is_lost_again() -> None:
    index = index_of(2)
    for instance in (0, 1):
        hold(index, 0, instance, 1)
        hold(index, 0, instance, 2)
        hold(index, 2, instance, 3)
    assert index.matched_tokens((0, 2), 100) == [20, 20]
    hold(index, 0, 0, 1)
    assert index.matched_tokens((0, 2), 100) == [4, 20]
    hold(index, 0, 0, 0)
    hold(index, 2, 1, 0)
    assert index.matched_tokens((0, 2), 100) == [0, 8]


class Undeclared(Router):
    """Matches without saying so."""

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        return int(cluster.matched_tokens(request)[0])


def test_a_router_that_matches_must_say_so() -> None:
    with pytest.raises(InvalidDecisionError, match="Undeclared: asked for matched_tokens without"):
        run_engine(workload_of([Ask(0, 4, 1)]), router=Undeclared())


class Told(LMetric):
    """Notes what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[list[int], list[int]]] = []

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        matched = list(cluster.matched_tokens(request))
        self.told.append((matched, list(cluster.queued_hit_tokens)))
        return super().route(request, cluster, now_s)


def told(*asks: Ask, **options: Any) -> list[tuple[list[int], list[int]]]:
    router = Told()
    run_engine(workload_of(asks, [(-1, 16), (0, 40)]), router=router, seats=1, **options)
    return router.told


def test_blocks_match_as_soon_as_their_step_is_planned_and_waiting_hits_are_counted() -> None:
    asks = [Ask(0, 20, 9, (0,)), Ask(0, 20, 1, (0,)), Ask(0.5, 20, 1, (0,)), Ask(20, 20, 1, (0,))]
    assert told(*asks) == [
        ([0], [0]),
        ([0], [0]),  # the instance plans after all arrivals of an instant
        ([16], [0]),
        ([16], [0]),
    ]
    # The third one waits with 16 tokens found until it is admitted.
    assert told(*asks[:3], Ask(0.7, 20, 1, (0,)))[-1] == ([16], [16])


def test_a_delayed_view_hears_of_blocks_late() -> None:
    asks = [Ask(0, 20, 1, (0,)), Ask(1.9, 20, 1, (0,)), Ask(2.0, 20, 1, (0,))]
    matched = [m for m, _ in told(*asks, view_delay_s=2.0)]
    assert matched == [[0], [0], [16]]


def test_a_published_view_shows_the_blocks_of_the_last_publication() -> None:
    asks = [Ask(0.5, 20, 1, (0,)), Ask(0.9, 20, 1, (0,)), Ask(1.0, 20, 1, (0,))]
    matched = [m for m, _ in told(*asks, publish_period_s=1.0)]
    assert matched == [[0], [0], [16]]


def test_an_old_view_hears_of_an_output_when_it_is_complete() -> None:
    # Request 0 writes node 1 from its 17th token on, one a second until 40 s.
    first = Ask(0, 16, 40, (0,), 1)
    asks = [first, *[Ask(t, 60, 1, (0, 1)) for t in (9.5, 13.5, 40.1, 40.3)]]
    live = [m for m, _ in told(*asks)]
    late = [m for m, _ in told(*asks, view_delay_s=0.25)]
    # From 40 s on the next request computes what the last block lacks.
    assert live[1:] == [[24], [28], [56], [56]]
    assert late[1:] == [[16], [16], [16], [56]]
