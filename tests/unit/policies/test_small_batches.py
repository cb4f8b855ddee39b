"""Feather's relatives that do not learn, by hand."""

from typing import Any

import pytest

from policies.batching.feather_heuristic import FeatherHeuristic
from policies.batching.hash_tree import HashTree
from policies.batching.oracle import Oracle
from policies.batching.radix_cost import RadixCost
from sim.errors import ConfigError
from tests.unit.policies.batching_view import PlayedInstance, grouped_requests


def test_hash_tree_adds_what_brings_at_most_one_chunk() -> None:
    # Chunks of 10: a member of a group that runs brings 1, another group 5.
    instance = PlayedInstance(HashTree(10))
    instance.arrive(*grouped_requests([0, 1, 0, 1]))
    assert instance.plan() == [0, 2]
    assert instance.plan() == []
    instance.finish(0)
    assert instance.plan() == []
    instance.finish(2)
    assert instance.plan() == [1, 3]


def test_hash_tree_takes_its_limit_from_the_option() -> None:
    instance = PlayedInstance(HashTree(10, max_missing_chunks=0))
    instance.arrive(*grouped_requests([0, 0]))
    assert instance.plan() == [0]
    instance = PlayedInstance(HashTree(10, max_missing_chunks=5))
    instance.arrive(*grouped_requests([0, 1]))
    assert instance.plan() == [0, 1]


def test_radix_cost_counts_tokens() -> None:
    # A member brings its suffix, another group 40 more.
    for suffix, admitted in ((50, [0, 2]), (51, [0])):
        instance = PlayedInstance(RadixCost())
        instance.arrive(*grouped_requests([0, 1, 0], suffix=suffix))
        assert instance.plan() == admitted
    instance = PlayedInstance(RadixCost(max_missing_tokens=91))
    instance.arrive(*grouped_requests([0, 1, 0], suffix=51))
    assert instance.plan() == [0, 2, 1]


def test_radix_cost_prefers_the_cheapest_whatever_came_first() -> None:
    instance = PlayedInstance(RadixCost(max_missing_tokens=50))
    first, longer, shorter = grouped_requests([0, 0, 0], suffix=30)
    shorter.prompt_tokens -= 20
    shorter.private_tokens -= 20
    instance.arrive(first)
    instance.plan()
    instance.arrive(longer, shorter)
    assert instance.plan() == [2, 1]


def test_the_heuristic_admits_below_the_ceiling_and_raises_the_floor() -> None:
    # Prefixes of 6 chunks, so another group costs all 6 or 7 of the chain: more than 5.
    policy = FeatherHeuristic(10)
    instance = PlayedInstance(policy)
    instance.arrive(*grouped_requests([0, 0, 0, 1], prefix=60))
    # The first goes unconditionally; the second costs 1 chunk, the third none: the floor is 3.
    # Three run, so the stranger, at a cost of 6, stays out.
    assert instance.plan() == [0, 1, 2]
    assert policy._floor == 3
    assert instance.plan() == []
    # Below the floor it goes in, and then the floor does not rise.
    instance.finish(2)
    assert instance.plan() == [3]
    assert policy._floor == 3


def test_the_floor_of_the_heuristic_ends_at_ten_and_never_falls() -> None:
    policy = FeatherHeuristic(10)
    instance = PlayedInstance(policy)
    instance.arrive(*grouped_requests([0] * 15, prefix=60))
    assert len(instance.plan()) == 15
    assert policy._floor == 10
    instance.finish(*range(15))
    assert policy._floor == 10


def test_the_floor_of_the_heuristic_waits_for_the_admission() -> None:
    policy = FeatherHeuristic(10)
    instance = PlayedInstance(policy)
    instance.arrive(*grouped_requests([0, 0], prefix=60))
    instance.plan(seats=1)
    for _ in range(5):
        assert instance.refuse() == 1
    assert policy._floor == 1


def test_the_ceiling_of_the_heuristic_is_higher_when_many_share_the_rest() -> None:
    # Two chunks common to all, then 6 of the group: the second group costs 6 or 7 chunks, and the
    # two that would be left are held by 10 waiting requests, or by 9.
    for num_waiting, num_admitted in ((10, 10), (9, 0)):
        instance = PlayedInstance(FeatherHeuristic(10, max_floor=1))
        requests = grouped_requests([0] + [1] * num_waiting)
        tree = _trunk_and_branches()
        for request in requests:
            request._workload = tree
            request.path = (0, 1 + request.path[0])
            request.prompt_tokens = 90
        instance.arrive(requests[0])
        instance.plan()
        instance.arrive(*requests[1:])
        assert len(instance.plan()) == num_admitted


def _trunk_and_branches() -> Any:
    from tests.twin.stories import Ask, workload_of

    return workload_of([Ask(0, 90, 1, (0, 1))], [(-1, 20), (0, 60), (0, 60)])


def test_the_oracle_runs_the_largest_group_to_its_end() -> None:
    instance = PlayedInstance(Oracle())
    requests = grouped_requests([0, 1, 1, 2, 2, 1])
    instance.arrive(*requests[:5])
    assert instance.plan() == [1, 2]  # of two groups of two the one that came first
    instance.arrive(requests[5])
    assert instance.plan() == []  # came after the batch was sealed
    instance.finish(1)
    assert instance.plan() == []
    instance.finish(2)
    assert instance.plan() == [3, 4]
    instance.finish(3, 4)
    assert instance.plan() == [0]


def test_members_that_did_not_fit_join_later_and_before_anybody_else() -> None:
    instance = PlayedInstance(Oracle())
    requests = grouped_requests([0, 0, 0, 1, 1, 1, 1])
    instance.arrive(*requests[:3])
    assert instance.plan(seats=1) == [0]
    instance.arrive(*requests[3:])
    instance.finish(0)
    assert instance.plan(seats=1) == [1]
    instance.preempt(1)
    assert instance.plan() == [1, 2]


def test_a_preempted_member_comes_back_by_its_arrival() -> None:
    instance = PlayedInstance(Oracle())
    instance.arrive(*grouped_requests([0, 0, 0]))
    assert instance.plan() == [0, 1, 2]
    instance.preempt(2)
    instance.preempt(0)
    assert instance.plan() == [0, 2]


def test_groups_of_the_oracle_are_as_deep_as_told() -> None:
    for group_nodes, admitted in ((1, [0, 1, 2]), (2, [1, 2])):
        instance = PlayedInstance(Oracle(group_nodes))
        requests = grouped_requests([0, 1, 1])
        for request in requests:
            request.path = (7, request.path[0])
        instance.arrive(*requests)
        assert instance.plan() == admitted


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: HashTree(0), "batching.chunk_tokens=0: must be 1 to"),
        (lambda: HashTree(max_missing_chunks=-1), "batching.max_missing_chunks=-1: must be >= 0"),
        (lambda: RadixCost(-1), "batching.max_missing_tokens=-1: must be >= 0"),
        (lambda: FeatherHeuristic(loss_ceiling=-1), "batching.loss_ceiling=-1: must be >= 0"),
        (lambda: FeatherHeuristic(many_sharing=-1), "batching.many_sharing=-1: must be >= 0"),
        (lambda: FeatherHeuristic(max_floor=0), "batching.max_floor=0: must be at least 1"),
        (lambda: Oracle(0), "batching.group_nodes=0: must be at least 1"),
    ],
)
def test_options_out_of_range_are_refused(build: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build()
