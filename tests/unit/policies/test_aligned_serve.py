"""AlignedServe step by step, worked out by hand.

Steps take 1 s, a block holds 4 tokens and 4 bytes. Links carry 8 bytes per second, or so many that
transfers take no time that counts (`FAST`).
"""

from typing import Any

import numpy as np
import pytest

from experiments.results.iterations import distinct_labels
from policies.batching.aligned.controller import AlignedServe
from sim.disaggregation.spec import LinkSpec
from sim.errors import ConfigError
from sim.records import SimulationResult
from tests.disaggregated_runs import run_disaggregated
from tests.twin.stories import Ask, workload_of

FAST = 1e9
SLOW = 8.0


def play(*asks: Ask, rate: float = FAST, **options: Any) -> tuple[SimulationResult, AlignedServe]:
    """A run on one prefill and one decode instance, and its controller."""
    parts = {
        "host_link": LinkSpec(latency_s=0.0, bytes_per_s=rate),
        "host_pool_bytes": options.pop("pool", 10_000),
        "prefill_buffer_bytes": options.pop("buffer", 1000),
    }
    engine = {key: options.pop(key) for key in ("decode_blocks", "num_decode") if key in options}
    made: list[AlignedServe] = []

    def make() -> AlignedServe:
        made.append(AlignedServe(**options))
        return made[-1]

    result = run_disaggregated(
        workload_of(asks), feeder=make, parts=parts, bytes_per_s=rate, **engine
    )
    return result, made[-1]


def starts(result: SimulationResult) -> list[float]:
    """When requests join their decode batch, rounded to steps."""
    assert result.handover is not None
    return [round(time_s, 3) for time_s in result.handover.decode_start_s.tolist()]


def test_kv_goes_by_way_of_the_pool_and_the_buffer() -> None:
    result, _ = play(Ask(0.0, 8, 3), rate=SLOW)
    # Prefill 0 to 1; pool 2, buffer 3, decode GPU 4; two steps.
    assert starts(result) == [4.0]
    assert result.requests.finish_s.tolist() == [6.0]
    assert result.handover is not None
    assert result.handover.transfer_bytes.tolist() == [24]
    assert result.handover.host_bytes == 16
    assert result.handover.buffer_peak_bytes == 8


def test_without_prefetch_kv_comes_straight_from_the_pool() -> None:
    result, controller = play(Ask(0.0, 8, 3), rate=SLOW, prefetch=False, buffer=0)
    assert starts(result) == [3.0]
    assert result.handover is not None
    assert result.handover.host_bytes == 16
    assert controller.log.first_asked_s == {0: 2.0}


# A request that runs until 20 s; meanwhile 8, 40 and 8 tokens come to the pool, 1 s after these.
BUSY = (Ask(0.0, 8, 20), Ask(4.5, 8, 3), Ask(6.5, 40, 3), Ask(8.5, 8, 3))


def test_similar_lengths_make_a_batch_and_the_others_wait() -> None:
    result, controller = play(
        *BUSY, k_min=3, switch_below=1, candidate_requests_ratio=0.0, batch_ratio=0.05
    )
    assert controller.log.batch_of == {0: 0, 1: 1, 3: 1, 2: 2}
    # 19 decode steps from 1.0; the batch of 8 has two; the long one follows.
    assert starts(result) == [1.0, 20.0, 22.0, 20.0]
    assert controller.log.num_batches == 3
    assert controller.log.num_aligned == 1


def test_without_lengths_the_oldest_make_the_batch() -> None:
    asks = [*BUSY, Ask(10.5, 8, 3)]
    blind = {"length_aware": False, "k_min": 3, "batch_ratio": 0.15}
    _, controller = play(*asks, switch_below=1, candidate_requests_ratio=0.0, **blind)
    # 2 + 10 + 2 of 15 blocks.
    assert controller.log.batch_of == {0: 0, 1: 1, 2: 1, 3: 1, 4: 2}
    assert controller.log.num_aligned == 0


def test_a_batch_holds_its_share_of_the_blocks_and_no_more() -> None:
    asks = [Ask(0.0, 8, 20), *(Ask(4.5, 16, 3) for _ in range(3))]
    _, controller = play(
        *asks, k_min=3, switch_below=1, candidate_requests_ratio=0.0, batch_ratio=0.1
    )
    # 10 of 100 blocks: two requests of 4; the third one is a batch of its own.
    assert controller.log.batch_of == {0: 0, 1: 1, 2: 1, 3: 2}


def test_a_later_batch_joins_what_still_runs() -> None:
    result, controller = play(*BUSY, k_min=3, switch_below=2, candidate_requests_ratio=0.0)
    # With one request running the next one is a batch, from the step after it has come.
    assert starts(result) == [1.0, 6.0, 9.0, 12.0]
    assert controller.log.batch_of == {0: 0, 1: 1, 2: 2, 3: 3}


def test_requests_of_the_interval_top_up_the_running_batch() -> None:
    result, controller = play(*BUSY[:2], k_min=5, switch_below=1, candidate_requests_ratio=0.5)
    assert controller.log.batch_of == {0: 0, 1: 0}
    assert controller.log.num_topped_up == 1
    assert starts(result) == [1.0, 6.0]


def test_a_batch_by_age_is_not_topped_up_when_one_by_length_can_follow() -> None:
    asks = [Ask(0.0, 8, 30), Ask(0.0, 8, 8), *(Ask(4.5, 16, 3) for _ in range(4))]
    sizes: dict[str, Any] = {"batch_ratio": 0.09, "prefetch": False, "buffer": 0}
    # Of the four the first two are the next batch, since they fill 8 of 9 blocks. When the second
    # request ends at 8 s, 5 are in use: one of the others would fit.
    for k_min, others in ((2, 2), (3, 0)):
        _, controller = play(*asks, k_min=k_min, switch_below=1, **sizes)
        assert controller.log.batch_of == {0: 0, 1: 0, 2: 1, 3: 1, 4: others, 5: others}


def test_an_idle_decode_instance_is_fed_before_a_busy_one() -> None:
    asks = [Ask(10.0 * k, 8, 40) for k in range(4)]
    result, _ = play(*asks, num_decode=2, k_min=3)
    # Never three requests of a kind in the pool: each goes where fewest run, to 1 or 2.
    assert result.requests.instance.tolist() == [1, 2, 1, 2]


@pytest.mark.parametrize("way", [{}, {"prefetch": False, "buffer": 0}])
def test_an_evicted_request_comes_back_with_its_kv(way: dict[str, Any]) -> None:
    asks = [Ask(0.0, 8, 12), Ask(0.0, 8, 12)]
    result, controller = play(*asks, decode_blocks=7, batch_ratio=1.0, **way)
    assert controller.log.num_evicted == 1
    assert result.requests.num_preemptions.tolist() == [0, 1]
    assert result.num_finished == 2
    # Nothing is computed again: the decode instance never prefills.
    assert not result.instances[1].run_column("num_prefills").any()
    assert result.handover is not None
    assert result.handover.transfer_bytes[1] > result.handover.transfer_bytes[0]


def test_a_full_pool_holds_kv_on_the_prefill_instance() -> None:
    asks = [Ask(0.0, 8, 10), Ask(0.0, 8, 10), Ask(0.0, 8, 10)]
    result, _ = play(*asks, pool=8, k_min=1, switch_below=1, candidate_requests_ratio=0.0)
    assert result.handover is not None
    assert result.handover.host_peak_bytes == 8
    # A batch of one runs, the next lies in the buffer, the third waits in the pool.
    assert starts(result) == [1.0, 10.0, 19.0]


def test_kv_that_is_larger_than_the_pool_goes_straight_to_its_decode_instance() -> None:
    result, _ = play(Ask(0.0, 40, 3), pool=8)
    assert result.handover is not None
    assert result.handover.host_bytes == 0
    assert starts(result) == [1.0]


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_bound_on_the_wait_lets_the_oldest_go_first(share: float) -> None:
    short = [Ask(1.5 + k, 8, 4) for k in range(12)]
    asks = [Ask(0.0, 8, 6), Ask(0.5, 40, 3), *short]
    # In the buffer the part for top-ups is too small for the long one.
    options: dict[str, Any] = {"k_min": 3, "switch_below": 1, "batch_ratio": 0.05, "buffer": 60}
    waits = []
    for bound in (None, 3.0):
        result, _ = play(*asks, max_wait_s=bound, candidate_requests_ratio=share, **options)
        waits.append(starts(result)[1])
    assert waits[1] < waits[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k_min": 0}, "k_min=0: must be at least 1"),
        ({"batch_ratio": 0.0}, "batch_ratio=0.0: must be above 0"),
        ({"batch_ratio": 1.5}, "batch_ratio=1.5: must be above 0"),
        ({"leaf_tokens": 3}, "leaf_tokens=3: must be one of"),
        ({"fills": "all"}, "fills=all: must be node or widen"),
        ({"forms": "soon"}, "forms=soon: must be k_min or at_once"),
        ({"switch_below": 0}, "switch_below=0: must be at least 1"),
        ({"candidate_requests_ratio": 1.0}, "candidate_requests_ratio=1.0: must be at least 0"),
        ({"max_wait_s": 0.0}, "max_wait_s=0.0: must be finite and above 0"),
        ({"length_aware": False, "fills": "node"}, "fills=node has no effect with"),
        ({"length_aware": False, "leaf_tokens": 4}, "leaf_tokens=4 has no effect with"),
        ({"prefetch": False, "candidate_requests_ratio": 0.2}, "ratio=0.2 has no effect with"),
    ],
)
def test_a_value_out_of_range_is_told_in_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        AlignedServe(**options)
    assert "\n" not in str(caught.value)


def test_a_pool_and_a_buffer_are_needed() -> None:
    with pytest.raises(ConfigError, match="host_pool_bytes"):
        play(Ask(0.0, 8, 3), pool=0)
    with pytest.raises(ConfigError, match="prefill_buffer_bytes"):
        play(Ask(0.0, 8, 3), buffer=3)
    with pytest.raises(ConfigError, match="prefill_buffer_bytes has no effect"):
        play(Ask(0.0, 8, 3), prefetch=False)


def test_kv_that_cannot_leave_its_decode_instance_is_told() -> None:
    asks = [Ask(0.0, 8, 12), Ask(0.0, 8, 12)]
    with pytest.raises(ConfigError, match="host_pool_bytes=8: too small"):
        play(*asks, decode_blocks=7, batch_ratio=1.0, pool=8)


def test_steps_in_which_batches_meet_are_counted_once_per_batch() -> None:
    label = np.array([7, 3, 7, 3])
    first, last = np.array([0, 2, 3, 6]), np.array([1, 4, 3, 9])
    found = distinct_labels(label, first, last, 8)
    assert found.tolist() == [1, 1, 1, 2, 1, 0, 1, 1]
