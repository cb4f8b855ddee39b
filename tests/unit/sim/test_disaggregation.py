"""Prefill and decode apart: what happens when, worked out by hand.

Steps take 1 s, a block holds 4 tokens and 4 bytes; the link moves 8 bytes per second.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from policies.routing.jsq import JSQ
from sim.errors import ConfigError
from sim.inter_token import token_gaps
from sim.interfaces import BatchPolicy, InstanceView
from sim.kv_usage import block_seconds
from sim.metrics import summarize, tokens_generated
from sim.recorder import COMPLETED, REJECTED, UNFINISHED
from sim.records import SimulationResult
from sim.request import Request
from sim.system_size import regime_of
from sim.vllm_v1 import VllmV1
from sim.workload import Workload
from tests.disaggregated_runs import disaggregated_of, run_disaggregated
from tests.twin.stories import Ask, workload_of


def play(*asks: Ask, nodes: Any = (), **options: Any) -> SimulationResult:
    options.setdefault("bytes_per_s", 8.0)
    return run_disaggregated(workload_of(asks, nodes), **options)


def times(result: SimulationResult, *names: str) -> list[list[float]]:
    handover = result.handover
    assert handover is not None
    columns = [getattr(result.requests, n, None) for n in names]
    found = [
        getattr(handover, n) if column is None else column
        for n, column in zip(names, columns, strict=True)
    ]
    return [column.tolist() for column in found]


# -- pull ------------------------------------------------------------------------------------------


def test_kv_is_moved_after_the_prefill_and_decoded_when_it_is_there() -> None:
    result = play(Ask(0.0, 8, 3))
    # Prefill 0 to 1, 8 bytes 1 to 2, two decode steps.
    assert times(result, "first_token_s", "transfer_start_s", "transfer_end_s") == [
        [1.0],
        [1.0],
        [2.0],
    ]
    assert times(result, "decode_start_s", "finish_s", "instance") == [[2.0], [4.0], [1]]


def test_latency_comes_before_the_bytes() -> None:
    result = play(Ask(0.0, 8, 3), latency_s=0.5)
    assert times(result, "transfer_end_s", "finish_s") == [[2.5], [4.5]]


def test_whole_blocks_are_moved() -> None:
    result = play(Ask(0.0, 5, 2))
    assert times(result, "transfer_bytes", "transfer_end_s") == [[8], [2.0]]


def test_transfers_out_of_one_instance_share_its_link() -> None:
    result = play(Ask(0.0, 8, 3), Ask(0.0, 8, 3), num_decode=2)
    assert times(result, "transfer_end_s", "instance") == [[3.0, 3.0], [1, 2]]


def test_transfers_between_other_instances_do_not_share() -> None:
    result = play(Ask(0.0, 8, 3), Ask(0.0, 8, 3), num_prefill=2, num_decode=2)
    assert times(result, "transfer_end_s", "instance") == [[2.0, 2.0], [2, 3]]


def test_kv_that_comes_in_the_middle_of_a_step_waits_for_its_end() -> None:
    result = play(Ask(0.0, 8, 9), Ask(0.5, 8, 3))
    # The second is prefilled 1 to 2 and moved 2 to 3, while the first decodes from 2 on.
    assert times(result, "transfer_end_s", "decode_start_s") == [[2.0, 3.0], [2.0, 3.0]]
    result = play(Ask(0.0, 8, 9), Ask(0.5, 8, 3), latency_s=0.25)
    assert times(result, "transfer_end_s", "decode_start_s") == [[2.25, 3.25], [2.25, 3.25]]
    result = play(Ask(0.0, 8, 9), Ask(0.5, 12, 3))
    assert times(result, "transfer_end_s", "decode_start_s") == [[2.0, 3.5], [2.0, 4.0]]


def test_a_request_of_one_token_ends_where_it_was_prefilled() -> None:
    result = play(Ask(0.0, 8, 1), Ask(0.0, 4, 2))
    assert result.requests.instance.tolist() == [0, 1]
    assert times(result, "finish_s", "transfer_bytes") == [[1.0, 2.5], [0, 4]]
    assert tokens_generated(result).tolist() == [1, 2]


# -- back-pressure ---------------------------------------------------------------------------------


def test_a_full_decode_pool_keeps_kv_on_the_prefill_gpu_which_then_keeps_prompts_waiting() -> None:
    asks = [Ask(0.0, 8, 3)] * 4
    result = play(*asks, usable_blocks=4, decode_blocks=3)
    # One request fits the decode instance. Two are prefilled at 0; the third when the KV of the
    # first has left, at 2; the fourth when that of the second has, at 5.
    assert times(result, "admitted_s", "first_token_s") == [[0, 0, 2, 5], [1, 1, 3, 6]]
    assert times(result, "transfer_start_s", "decode_start_s", "finish_s") == [
        [1, 4, 7, 10],
        [2, 5, 8, 11],
        [4, 7, 10, 13],
    ]


def test_of_prefills_that_end_together_the_earlier_arrival_goes_first() -> None:
    result = play(Ask(0.0, 4, 3), Ask(0.0, 8, 3), Ask(0.0, 8, 3), num_prefill=2, decode_blocks=3)
    # Rows 0 and 2 are prefilled by instance 0, row 1 by instance 1, all until 1.
    assert result.handover is not None
    assert result.handover.prefill_instance.tolist() == [0, 1, 0]
    assert times(result, "transfer_start_s") == [[1.0, 3.5, 6.5]]


def test_seats_keep_kv_on_the_decode_gpu_waiting() -> None:
    result = play(Ask(0.0, 8, 3), Ask(0.0, 8, 3), decode_seats=1)
    assert times(result, "transfer_end_s", "decode_start_s") == [[3.0, 3.0], [3.0, 5.0]]


def test_a_preempted_request_is_computed_again_by_its_decode_instance() -> None:
    result = play(Ask(0.0, 4, 10), Ask(0.0, 4, 10), decode_blocks=5)
    # Both decode from 2 on; at 6 each needs a third block and one is free. The second has 5 tokens
    # by then. The first ends at 11; the second is prefilled 11 to 12, which gives its sixth token.
    assert result.requests.num_preemptions.tolist() == [0, 1]
    assert times(result, "finish_s", "instance") == [[11.0, 16.0], [1, 1]]
    assert tokens_generated(result).tolist() == [10, 10]


class Insists(BatchPolicy):
    """Yields the first waiting request until it runs."""

    def candidates(self, instance: InstanceView, now_s: float) -> Iterator[Request]:
        while left := [
            r for r in instance.waiting.values() if r.request_id not in instance.running
        ]:
            yield left[0]


def test_a_policy_is_not_asked_again_after_a_request_that_does_not_fit() -> None:
    result = play(
        Ask(0.0, 4, 10), Ask(0.0, 4, 10), decode_blocks=5, decode_batching=lambda _index: Insists()
    )
    assert times(result, "finish_s") == [[11.0, 16.0]]


def test_nobody_gets_blocks_while_a_preempted_request_waits() -> None:
    result = play(Ask(0.0, 4, 10), Ask(0.0, 4, 10), Ask(5.0, 4, 2), decode_blocks=5)
    # Blocks are free at 6 too, but the second request waits for three of them until 11.
    assert times(result, "finish_s", "transfer_start_s") == [[11.0, 16.0, 13.0], [1.0, 1.0, 11.0]]


# -- push ------------------------------------------------------------------------------------------


def test_layers_leave_during_the_last_prefill_step_and_the_last_one_after_it() -> None:
    result = play(Ask(0.0, 8, 3), layerwise=True, num_layers=4)
    # Three layers, 6 bytes, 0.25 to 1; the last one 1 to 1.25.
    assert times(result, "transfer_start_s", "transfer_end_s", "finish_s") == [[0], [1.25], [3.25]]


def test_what_a_slow_link_cannot_hide_remains() -> None:
    result = play(Ask(0.0, 8, 3), layerwise=True, num_layers=4, bytes_per_s=2.0)
    assert times(result, "transfer_end_s") == [[4.25]]


def test_one_layer_hides_nothing() -> None:
    pushed, pulled = [play(Ask(0.0, 8, 3), layerwise=on, num_layers=1) for on in (True, False)]
    assert times(pushed, "transfer_end_s") == times(pulled, "transfer_end_s")


def test_only_the_last_chunk_of_a_prompt_hides_the_transfer() -> None:
    result = play(Ask(0.0, 12, 3), layerwise=True, num_layers=4, budget=8)
    # Chunks of 8 and 4 tokens; three layers, 9 bytes, 1.25 to 2.375; the last one 3 bytes.
    assert times(result, "transfer_start_s", "transfer_end_s") == [[1.0], [2.75]]


def test_without_room_the_push_begins_when_there_is_some() -> None:
    result = play(Ask(0.0, 8, 3), Ask(0.0, 8, 3), layerwise=True, num_layers=4, decode_blocks=3)
    # The first: 1.25, decodes until 3.25; the second is moved whole from then on.
    assert times(result, "transfer_start_s", "transfer_end_s") == [[0.0, 3.25], [1.25, 4.25]]


# -- prefixes, mixed instances, closed loops -------------------------------------------------------


def test_the_prefill_cache_works_while_kv_waits_to_leave() -> None:
    asks = [Ask(0.0, 8, 3, (0,)), Ask(2.5, 12, 3, (0,))]
    result = play(*asks, nodes=[(-1, 8)], bytes_per_s=0.5)
    assert result.requests.cached_tokens.tolist() == [0, 8]
    assert times(result, "transfer_bytes") == [[8, 12]]


def test_a_mixed_instance_keeps_what_it_prefills() -> None:
    asks = [Ask(0.0, 8, 3), Ask(0.0, 8, 3)]
    result = play(*asks, num_mixed=1, num_decode=1, decode_router=JSQ(), router=JSQ())
    # Instances: 0 prefills, 1 does both, 2 decodes. The second prompt goes to 1 and stays there.
    assert result.requests.instance.tolist() == [2, 1]
    assert times(result, "finish_s", "transfer_bytes") == [[4.0, 3.0], [8, 0]]


def test_a_mixed_instance_takes_kv_too() -> None:
    result = play(Ask(0.0, 8, 5), Ask(0.5, 8, 5), num_mixed=1, num_decode=1, num_prefill=1)
    assert sorted(result.requests.instance.tolist()) == [1, 2]


def looped(asks: list[Ask], after: list[int]) -> Workload:
    delay_s = np.full(len(asks), 0.5)
    return replace(workload_of(asks), after=np.array(after), delay_s=delay_s)


def test_a_follow_up_comes_after_the_last_token_of_the_decode_instance() -> None:
    workload = looped([Ask(0.0, 8, 3), Ask(0.0, 8, 3), Ask(0.0, 4, 1)], [-1, 0, 1])
    result = run_disaggregated(workload, bytes_per_s=8.0)
    assert times(result, "arrival_s", "finish_s") == [[0.0, 4.5, 9.0], [4.0, 8.5, 10.0]]


# -- figures ---------------------------------------------------------------------------------------


def test_figures_with_and_without_the_wait() -> None:
    metrics = summarize(play(Ask(0.0, 8, 3)), slo_ttft_s=1, slo_tpot_s=1)
    assert metrics["ttft_mean_s"] == 1.0
    assert metrics["ttft_decode_ready_mean_s"] == 2.0
    assert metrics["tpot_mean_s"] == 1.5
    assert metrics["tpot_decode_mean_s"] == 1.0
    assert metrics["handover_mean_s"] == metrics["transfer_mean_s"] == 1.0
    assert metrics["transfer_bytes"] == 8
    assert metrics["num_handed_over"] == 1
    assert metrics["load_imbalance_ratio"] is None
    assert metrics["mixed_busy_ratio"] is None
    # Of 4 s: prefill 1, decode 2, each end of the link 1.
    shares = ("prefill_busy_ratio", "decode_busy_ratio", "send_busy_ratio", "receive_busy_ratio")
    assert [metrics[name] for name in shares] == [0.25, 0.5, 0.25, 0.25]


def test_the_gap_to_the_second_token_counts_whole() -> None:
    gaps_s, weights = token_gaps(play(Ask(0.0, 8, 3)))
    assert sorted(np.repeat(gaps_s, weights).tolist()) == [1.0, 2.0]


def test_blocks_are_in_use_until_the_kv_has_left_and_from_the_reservation_on() -> None:
    result = play(Ask(0.0, 8, 3), Ask(6.0, 8, 3))
    # Per request: 2 blocks for 2 s to prefill; 3 from 1 to 4 s after the arrival to decode.
    assert [block_seconds(result, i) for i in (0, 1)] == [8.0, 18.0]
    metrics = summarize(result, slo_ttft_s=1, slo_tpot_s=1)
    assert metrics["prefill_kv_usage_mean_ratio"] == pytest.approx(8 / (10 * 100))
    assert metrics["decode_kv_usage_mean_ratio"] == pytest.approx(18 / (10 * 100))
    assert metrics["kv_usage_mean_ratio"] == pytest.approx(26 / (10 * 200))


@pytest.mark.parametrize(
    ("horizon_s", "tokens"), [(0.5, 0), (1.5, 1), (2.5, 1), (3.5, 2), (9.0, 3)]
)
def test_a_run_that_is_cut_short_counts_the_tokens_that_are_out(
    horizon_s: float, tokens: int
) -> None:
    result = run_disaggregated(workload_of([Ask(0.0, 8, 3)]), horizon_s, bytes_per_s=8.0)
    assert tokens_generated(result).tolist() == [tokens]
    assert result.requests.status.tolist() == [COMPLETED if tokens == 3 else UNFINISHED]
    assert np.isnan(result.requests.first_token_s[0]) == (tokens == 0)


def test_what_fits_no_pool_is_rejected_and_the_run_goes_on() -> None:
    asks = [Ask(0.0, 13, 2), Ask(0.0, 8, 6), Ask(0.0, 8, 5)]
    result = play(*asks, usable_blocks=3, decode_blocks=3)
    assert result.requests.status.tolist() == [REJECTED, REJECTED, COMPLETED]
    result = play(*asks, usable_blocks=3, decode_blocks=100)
    assert result.requests.status.tolist() == [REJECTED, COMPLETED, COMPLETED]


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"latency_s": -1.0}, "cluster.link: latency_s=-1.0"),
        ({"bytes_per_s": 0.0}, "cluster.link: bytes_per_s=0.0"),
        ({"num_decode": 0}, "cluster.num_decode=0"),
        ({"num_mixed": 1, "num_instances": 1}, "cluster.num_mixed=1"),
        ({"decode_blocks": 0}, "cluster.decode_num_gpu_blocks=1"),
        ({"kv_bytes_per_token": 0}, "kv_bytes_per_token=0"),
        ({"num_layers": 0}, "num_layers=0"),
        ({"is_async": True}, "engine.async_scheduling=true"),
        ({"parts": {"host_pool_bytes": -1}}, "cluster.host_pool_bytes=-1"),
        ({"rules": object()}, "engine=vllm_v1 only"),
        ({"decode_seats": 65}, "engine.max_num_seqs=65"),
    ],
)
def test_a_value_that_cannot_be_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        disaggregated_of(**options).validate()


def test_a_decode_router_that_matches_prefixes_is_refused() -> None:
    router = JSQ()
    router.uses_prefix_match = True
    with pytest.raises(ConfigError, match=r"cluster.decode_routing: router JSQ matches prefixes"):
        disaggregated_of(decode_router=router).validate()


def test_rules_of_a_class_derived_from_vllm_are_refused() -> None:
    class Other(VllmV1):
        pass

    with pytest.raises(ConfigError, match="not with Other"):
        disaggregated_of(rules=Other(8, 64)).validate()


@pytest.mark.parametrize(("seats", "expected"), [(8, "stable"), (1, "overloaded")])
def test_the_regime_judges_the_wait_for_the_decode_batch(seats: int, expected: str) -> None:
    # A prefill a second keeps up; one seat for four decode steps does not.
    asks = [Ask(1.0 * k, 8, 5) for k in range(200)]
    result = play(*asks, decode_seats=seats, num_gpu_blocks=10_001, bytes_per_s=1e9)
    assert regime_of(result) == expected
