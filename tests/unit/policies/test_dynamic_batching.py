"""The limits of dynamic batching, by hand."""

from typing import Any

import pytest

from policies.batching.dynamic_batching import DynamicBatching
from sim.errors import ConfigError
from tests.unit.policies.batching_view import PlayedInstance, grouped_requests


def waiting(policy: DynamicBatching, count: int) -> PlayedInstance:
    instance = PlayedInstance(policy)
    instance.arrive(*grouped_requests([0] * count))
    return instance


def test_it_serves_in_order_up_to_the_middle_of_its_interval() -> None:
    policy = DynamicBatching(max_batch=9)
    assert policy.latency_limit == 5
    assert waiting(policy, 7).plan() == [0, 1, 2, 3, 4]


def test_memory_limits_by_what_a_running_request_holds() -> None:
    # 2 running hold 100 of 1,000 blocks: 900 are to be filled, 50 each, so 16 more go in.
    instance = waiting(DynamicBatching(memory_ratio=0.9), 60)
    instance.plan(seats=2)
    instance.num_free_blocks = 900
    assert len(instance.plan()) == 16
    # 18 hold 945: over the share, so nobody goes in, but one always may.
    instance.num_free_blocks = 55
    assert instance.plan() == []
    instance.finish(*range(18))
    assert instance.plan(seats=1) == [18]


@pytest.mark.parametrize(
    ("duration_s", "interval"),
    [
        # Mean batch 10. Too slow: high = max(10, 1 + 4), low = 1 - 2, at least 1.
        (0.2, (1, 10)),
        # Fast: low = min(10, 19 - 4), high = 19 + 2, at most 19.
        (0.05, (10, 19)),
        # Within 5 %: 10 - 2 to 10 + 2.
        (0.104, (8, 12)),
        (0.096, (8, 12)),
    ],
)
def test_the_interval_moves_with_the_time_of_a_step(
    duration_s: float, interval: tuple[int, int]
) -> None:
    policy = DynamicBatching(0.1, window_steps=2, max_batch=19, narrow_by=4, widen_by=2)
    instance = waiting(policy, 30)
    assert len(instance.plan(duration_s)) == 10
    assert (policy._low, policy._high) == (1, 19)
    instance.plan(duration_s)
    assert (policy._low, policy._high) == interval


def test_the_interval_keeps_its_width_and_its_bounds() -> None:
    policy = DynamicBatching(0.1, window_steps=1, min_batch=3, max_batch=9, narrow_by=4, widen_by=2)
    for _ in range(5):
        policy._move(1.0, 1)
    assert (policy._low, policy._high) == (3, 7)
    for _ in range(5):
        policy._move(0.01, 9)
    assert (policy._low, policy._high) == (5, 9)
    policy._move(1.0, 20)
    assert (policy._low, policy._high) == (3, 9)
    policy._move(1.0, 8)
    policy._move(0.01, 4)
    assert (policy._low, policy._high) == (4, 9)
    policy._move(0.1, 7)
    assert (policy._low, policy._high) == (5, 9)
    policy._move(1.0, 8)
    assert (policy._low, policy._high) == (3, 9)


def test_steps_that_nobody_waits_for_are_not_counted() -> None:
    policy = DynamicBatching(0.1, window_steps=2, max_batch=19)
    instance = waiting(policy, 5)
    for _ in range(10):
        instance.plan(9.9)
    assert policy.latency_limit == 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tpot_slo_s": 0.0}, "batching.tpot_slo_s=0.0: must be finite and above 0"),
        ({"memory_ratio": 1.5}, "batching.memory_ratio=1.5: must be above 0, at most 1"),
        ({"tolerance": -1.0}, "batching.tolerance=-1.0: must be finite and >= 0"),
        ({"window_steps": 0}, "batching.window_steps=0: must be at least 1"),
        ({"min_batch": 0}, "batching.min_batch=0: must be at least 1"),
        ({"min_batch": 9, "max_batch": 8}, "batching.max_batch=8: must be at least 9"),
        ({"narrow_by": 1}, "batching.narrow_by=1: must be at least 2"),
        ({"widen_by": 0}, "batching.widen_by=0: must be at least 1"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DynamicBatching(**options)
