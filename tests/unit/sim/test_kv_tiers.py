"""Tiers behind the prefix cache, in stories worked out by hand.

Blocks hold 4 tokens and one byte, steps take a second. The first request leaves three blocks of a
shared prefix on the GPU, the second one needs their room, the third one has the prefix again.
"""

from typing import Any

import pytest

from policies.routing.round_robin import RoundRobin
from sim.disaggregation.spec import LinkSpec
from sim.errors import ConfigError
from sim.records import SimulationResult
from sim.sglang import Sglang
from sim.simulation import simulate
from tests.disaggregated_runs import disaggregated_of
from tests.engine_runs import run_engine
from tests.tiered_runs import run_tiered, run_to_tiers, tiered_cluster_of, tiers_of
from tests.twin.stories import Ask, workload_of

PREFIX = [(-1, 12)]


def asks_at(again_s: float, *more: Ask, filler: int = 16) -> list[Ask]:
    return [Ask(0, 13, 1, (0,)), Ask(2, filler, 1), Ask(again_s, 13, 1, (0,)), *more]


def finishes(asks: list[Ask], **options: Any) -> list[float]:
    options.setdefault("usable_blocks", 4)
    result: SimulationResult = run_tiered(workload_of(asks, PREFIX), **options)
    times: list[float] = result.requests.finish_s.tolist()
    return times


def host_hits(asks: list[Ask], **options: Any) -> list[int]:
    options.setdefault("usable_blocks", 4)
    _, records = run_to_tiers(workload_of(asks, PREFIX), **options)
    tokens: list[int] = records.host_hit_tokens.tolist()
    return tokens


def test_evicted_blocks_are_written_back_and_loaded_before_the_rest_is_computed() -> None:
    workload = workload_of(asks_at(5), PREFIX)
    cluster, records = run_to_tiers(workload, usable_blocks=4)
    assert records.host_hit_tokens.tolist() == [0, 0, 12]
    assert records.load_wait_s[2] == pytest.approx(0.003)
    assert cluster.instances[0].step_ends.times[2] == pytest.approx(6.003)
    assert (records.num_loads, records.host_loaded_bytes) == (1, 3)
    # Three of the prefix, and the four of the second request, which nobody will ask for.
    assert records.host_written_bytes == records.host_bytes == 7


def test_what_is_found_on_the_gpu_is_not_loaded() -> None:
    asks = asks_at(5, filler=8)  # its two blocks are the partial one and the last of the prefix
    _, records = run_to_tiers(workload_of(asks, PREFIX), usable_blocks=4)
    assert records.host_hit_tokens.tolist() == [0, 0, 4]
    result = run_tiered(workload_of(asks, PREFIX), usable_blocks=4)
    assert result.requests.cached_tokens.tolist() == [0, 0, 8]


def test_others_compute_while_a_request_waits_for_its_load() -> None:
    asks = asks_at(6, Ask(6, 4, 1))
    assert finishes(asks, bytes_per_s=1.0) == [1, 3, 10, 7]


def test_loads_share_the_link_fairly() -> None:
    asks = asks_at(6, Ask(6, 13, 1, (0,)), filler=32)
    assert finishes(asks, usable_blocks=8, bytes_per_s=1.0) == [1, 3, 13, 13]


def test_a_load_begins_after_the_latency_of_the_link() -> None:
    assert finishes(asks_at(9), bytes_per_s=1.0, latency_s=0.5)[2] == 13.5


def test_blocks_that_have_not_arrived_are_not_found() -> None:
    # Written from second 2 on, one per second: all three are there at 5.
    assert host_hits(asks_at(4.5), bytes_per_s=1.0) == [0, 0, 0]
    assert host_hits(asks_at(5), bytes_per_s=1.0) == [0, 0, 12]


def test_write_through_sends_blocks_when_they_are_computed() -> None:
    workload = workload_of(asks_at(5), PREFIX)
    _, records = run_to_tiers(workload, usable_blocks=4, write="write_through")
    assert records.host_hit_tokens.tolist() == [0, 0, 12]
    assert records.host_written_bytes == 3 + 4
    _, records = run_to_tiers(workload, usable_blocks=40, write="write_through")
    assert (records.num_loads, records.host_written_bytes) == (0, 3 + 4)
    _, records = run_to_tiers(workload, usable_blocks=40, write="write_back")
    assert records.host_written_bytes == 0


@pytest.mark.parametrize("macro_steps", [True, False])
def test_write_through_sends_every_chunk_of_a_prompt(macro_steps: bool) -> None:
    options: dict[str, Any] = {"write": "write_through", "macro_steps": macro_steps}
    _, records = run_to_tiers(workload_of([Ask(0, 24, 1)]), budget=4, seats=4, **options)
    assert records.host_written_bytes == 6
    # What is found on the GPU is not sent again.
    asks = [Ask(0, 8, 1, (0,)), Ask(9, 20, 1, (0,))]
    workload = workload_of(asks, [(-1, 8)])
    _, records = run_to_tiers(workload, budget=4, seats=4, **options)
    assert records.host_written_bytes == 2 + 3
    _, records = run_to_tiers(
        workload_of(asks_at(5), PREFIX), usable_blocks=4, budget=4, seats=4, **options
    )
    assert records.host_written_bytes == 3 + 4


def test_write_through_sends_what_decoding_has_filled_at_the_end() -> None:
    _, records = run_to_tiers(workload_of([Ask(0, 6, 7)]), write="write_through")
    assert records.host_written_bytes == 3  # the last token is never written


def test_a_hit_that_is_too_short_is_computed() -> None:
    assert host_hits(asks_at(5), min_hit_tokens=12) == [0, 0, 12]
    assert host_hits(asks_at(5), min_hit_tokens=13) == [0, 0, 0]


def test_the_host_keeps_what_was_written_last() -> None:
    # The last block of the prefix is evicted first, so it is the oldest in the host.
    assert host_hits(asks_at(5), host_blocks=2) == [0, 0, 8]


def test_what_would_leave_too_much_to_write_is_dropped() -> None:
    assert host_hits(asks_at(5), write_backlog_bytes=2) == [0, 0, 8]
    _, records = run_to_tiers(
        workload_of(asks_at(5)[:2], PREFIX), usable_blocks=4, write_backlog_bytes=2
    )
    assert (records.host_written_bytes, records.dropped_bytes) == (2, 1)


def test_what_the_host_evicts_goes_to_the_store_and_comes_back_through_the_host() -> None:
    link = LinkSpec(latency_s=0.5, bytes_per_s=1000.0)
    workload = workload_of(asks_at(5), PREFIX)
    cluster, records = run_to_tiers(
        workload, usable_blocks=4, host_blocks=2, remote_blocks=50, remote_link=link
    )
    assert records.host_hit_tokens.tolist() == [0, 0, 8]
    assert records.remote_hit_tokens.tolist() == [0, 0, 4]
    # Host and store are read at once; the latter's block comes after the latency.
    assert cluster.instances[0].step_ends.times[2] == pytest.approx(6.501)
    assert (records.host_loaded_bytes, records.remote_loaded_bytes) == (2, 1)


def test_a_layerwise_load_holds_up_its_step_until_the_last_layer_is_there() -> None:
    options: dict[str, Any] = {"load": "layerwise", "bytes_per_s": 1.0}
    # Load 3 s, compute 1 s: the second of two layers is there at 9.
    assert finishes(asks_at(6), num_layers=2, **options)[2] == 9.5
    assert finishes(asks_at(6), num_layers=1, **options)[2] == 10
    # Load 0.003 s: the first of two layers holds it up.
    assert finishes(asks_at(6), num_layers=2, load="layerwise")[2] == pytest.approx(7.0015)
    _, records = run_to_tiers(
        workload_of(asks_at(6), PREFIX), usable_blocks=4, num_layers=2, **options
    )
    assert records.load_wait_s.tolist()[2] == 2.5


def test_instances_find_what_others_wrote_only_in_a_shared_host() -> None:
    asks = [Ask(0, 13, 1, (0,)), Ask(0.5, 4, 1), Ask(2, 16, 1), Ask(5, 13, 1, (0,))]
    options: dict[str, Any] = {"num_instances": 2, "router": RoundRobin()}
    assert host_hits(asks, instances_per_host=1, **options) == [0, 0, 0, 0]
    options["router"] = RoundRobin()
    assert host_hits(asks, instances_per_host=2, **options) == [0, 0, 0, 12]


def test_a_loaded_request_gives_its_blocks_to_one_that_runs() -> None:
    # Loaded from 17 to 23, it lacks a block for its last token, and at 25 the other one needs a
    # block: that is the last of the three. It finds two on the GPU and loads the third until 28.
    asks = [*asks_at(17, filler=24)[:2], Ask(16, 4, 10), Ask(17, 13, 1, (0,))]
    result = run_tiered(workload_of(asks, PREFIX), usable_blocks=6, bytes_per_s=0.5)
    assert result.requests.num_preemptions.tolist() == [0, 0, 0, 1]
    assert result.requests.finish_s.tolist() == [1, 3, 26, 29]


def test_a_request_preempted_in_mid_load_starts_over() -> None:
    # From 17 to 25 a quarter byte per second; then it has lost its blocks, and waits for the other
    # one until 26. What is left of the first load takes half of the link until 32.
    asks = [*asks_at(17, filler=24)[:2], Ask(16, 4, 10), Ask(17, 13, 1, (0,))]
    workload = workload_of(asks, PREFIX)
    result = run_tiered(workload, usable_blocks=6, bytes_per_s=0.25)
    assert result.requests.num_preemptions.tolist() == [0, 0, 0, 1]
    assert result.requests.finish_s.tolist() == [1, 3, 26, 42]
    _, records = run_to_tiers(workload, usable_blocks=6, bytes_per_s=0.25)
    assert records.load_wait_s[3] == (25 - 17) + (41 - 26)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"host_blocks": 0}, "kv_tiers: host_blocks=0: must be at least 1"),
        ({"min_hit_tokens": -1}, "kv_tiers: min_hit_tokens=-1: must be at least 0"),
        ({"write": "never"}, "kv_tiers.write=never: must be one of write_back, write_through"),
        ({"load": "later"}, "kv_tiers.load=later: must be one of before_prefill, layerwise"),
        ({"bytes_per_s": 0.0}, "kv_tiers: host link: bytes_per_s=0.0"),
        ({"remote_blocks": 5}, "kv_tiers: a remote store needs both blocks and a link"),
        ({"prefix_caching": False}, "no effect when engine.prefix_caching=false"),
        ({"rules": Sglang(8, 64)}, "works with engine=vllm_v1 only, not with Sglang"),
        (
            {
                "load": "layerwise",
                "remote_blocks": 5,
                "remote_link": LinkSpec(latency_s=0.0, bytes_per_s=1.0),
            },
            "kv_tiers.load=layerwise is modelled for host memory only",
        ),
    ],
)
def test_what_cannot_be_is_one_line(options: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        run_tiered(workload_of([Ask(0, 4, 1)]), **options)


def test_separate_prefill_and_decode_are_refused() -> None:
    with pytest.raises(ConfigError, match="not modelled with cluster=disaggregated"):
        disaggregated_of(tiers=tiers_of()).validate()


def test_a_run_that_stops_in_mid_load_has_the_request_unfinished() -> None:
    spec = tiered_cluster_of(usable_blocks=4, bytes_per_s=1.0)
    result = simulate(workload_of(asks_at(6), PREFIX), spec, horizon_s=8.0)
    assert (result.num_finished, result.num_unfinished) == (2, 1)
    assert result.requests.admitted_s[2] == 6


def test_without_tiers_nothing_is_loaded() -> None:
    result = run_engine(workload_of(asks_at(5), PREFIX), usable_blocks=4)
    assert result.requests.finish_s.tolist() == [1, 3, 6]
