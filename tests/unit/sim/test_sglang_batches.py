"""SGLang through the engine: prefill batch or decode batch, budgets of a prefill batch, seats."""

import numpy as np
import pytest

from sim.errors import ConfigError
from sim.inter_token import token_gaps
from sim.interfaces import EvictionPolicy
from sim.sglang import Sglang
from tests.engine_runs import token_steps
from tests.sglang_runs import run_sglang
from tests.twin.stories import Ask, workload_of
from tests.unit.sim.probes import EveryStep, Probe, used_blocks, work


def test_decodes_stand_still_while_a_prefill_batch_runs() -> None:
    result = run_sglang(workload_of([Ask(0, 4, 3), Ask(1, 5, 2)]))
    assert work(result) == [(1, 0, 1, 4), (1, 0, 1, 5), (1, 2, 0, 0), (1, 1, 0, 0)]
    assert token_steps(result) == [[1, 3, 4], [2, 3]]
    assert result.requests.finish_s.tolist() == [4.0, 3.0]


def test_a_gap_between_tokens_is_counted_whole_across_prefill_batches() -> None:
    asks = [Ask(0, 4, 4), Ask(1.5, 5, 2), Ask(2.5, 6, 1)]
    result = run_sglang(workload_of(asks))
    assert token_steps(result) == [[1, 2, 5, 6], [3, 5], [4]]
    gaps, weights = token_gaps(result)
    assert sorted(np.repeat(gaps, weights).tolist()) == [1.0, 1.0, 2.0, 3.0]


def test_memory_grows_with_decodes_only() -> None:
    result = run_sglang(workload_of([Ask(0, 4, 4), Ask(2, 5, 2)]))
    assert work(result) == [
        (1, 0, 1, 4), (1, 1, 0, 0), (1, 0, 1, 5), (1, 2, 0, 0), (1, 1, 0, 0)
    ]  # fmt: skip
    assert used_blocks(result) == [4, 5, 10, 12, 7]


def test_a_router_sees_the_tokens_of_requests_that_stand_still() -> None:
    router = Probe()
    asks = [Ask(0, 4, 9), Ask(2.5, 5, 2), Ask(3.5, 6, 1), Ask(4.5, 1, 1)]
    run_sglang(workload_of(asks), router=router)
    # At 3.5 the second is being prefilled beside 4 + 2 tokens, at 4.5 the third beside both.
    assert router.kv_tokens == [(0,), (6,), (11,), (17,)]


def test_the_input_of_a_batch_is_at_most_16384_tokens() -> None:
    sizes = {"num_tokens": 100_000, "chunk": 50_000}
    fits = run_sglang(workload_of([Ask(0, 10_000, 1), Ask(0, 6_384, 1)]), **sizes)
    assert work(fits) == [(1, 0, 2, 16_384)]
    exceeds = run_sglang(workload_of([Ask(0, 10_000, 1), Ask(0, 6_385, 1)]), **sizes)
    assert work(exceeds) == [(1, 0, 1, 10_000), (1, 0, 1, 6_385)]


def test_the_first_request_of_a_batch_may_exceed_the_input() -> None:
    asks = [Ask(0, 3, 1), Ask(0, 12, 1), Ask(0, 3, 1)]
    result = run_sglang(workload_of(asks), rules={"max_prefill_tokens": 10})
    assert work(result) == [(1, 0, 1, 3), (1, 0, 1, 12), (1, 0, 1, 3)]


def test_a_longer_input_is_cut_and_others_join_its_last_part() -> None:
    result = run_sglang(workload_of([Ask(0, 20, 1), Ask(0, 3, 1)]), chunk=8)
    assert work(result) == [(1, 0, 1, 8), (1, 0, 1, 8), (1, 0, 2, 7)]
    assert token_steps(result) == [[3], [3]]


def test_one_request_at_a_time_is_cut() -> None:
    result = run_sglang(workload_of([Ask(0, 12, 1), Ask(0, 9, 1), Ask(0, 2, 1)]), chunk=8)
    assert work(result) == [(1, 0, 1, 8), (1, 0, 2, 8), (1, 0, 2, 7)]
    assert token_steps(result) == [[2], [3], [3]]


def test_nobody_decodes_between_the_parts_of_a_prompt() -> None:
    result = run_sglang(workload_of([Ask(0, 4, 3), Ask(0.5, 20, 1)]), chunk=8)
    assert token_steps(result) == [[1, 5, 6], [4]]


def test_seats_bound_the_running_requests() -> None:
    asks = [Ask(0, 4, 2), Ask(0, 4, 4), Ask(0, 4, 1)]
    result = run_sglang(workload_of(asks), seats=2)
    # The first has finished at 2; the batch is seen to have shrunk by the decode step after.
    assert token_steps(result) == [[1, 2], [1, 2, 3, 5], [4]]


def test_a_finished_request_counts_for_a_seat_until_the_next_decode_step() -> None:
    asks = [Ask(0, 4, 2), Ask(0, 4, 5), Ask(1.5, 4, 1)]
    assert token_steps(run_sglang(workload_of(asks), seats=2))[2] == [4]
    assert token_steps(run_sglang(workload_of(asks), seats=3))[2] == [3]


def test_with_nothing_left_to_decode_a_seat_is_free_at_once() -> None:
    result = run_sglang(workload_of([Ask(0, 4, 2), Ask(0.5, 4, 2)]), seats=1)
    assert token_steps(result) == [[1, 2], [3, 4]]


def test_a_request_that_ends_with_its_prefill_frees_its_seat_at_once() -> None:
    asks = [Ask(0, 4, 9), Ask(0, 4, 1), Ask(0, 4, 2)]
    assert token_steps(run_sglang(workload_of(asks), seats=2))[2] == [2, 3]


def test_unfinished_requests_have_the_tokens_they_got_by_the_horizon() -> None:
    workload = workload_of([Ask(0, 4, 9), Ask(1.5, 5, 9), Ask(3.5, 9, 9)])
    steps = [token_steps(run_sglang(workload, horizon_s=h + 0.6)) for h in (3, 4, 5, 6)]
    assert steps == [
        [[1, 2], [3], []],
        [[1, 2, 4], [3, 4], []],
        [[1, 2, 4], [3, 4], [5]],
        [[1, 2, 4, 6], [3, 4, 6], [5, 6]],
    ]


def test_a_policy_that_decides_every_step_is_asked_while_anybody_waits() -> None:
    asks = [Ask(0, 4, 9), Ask(0, 4, 2)]
    result = run_sglang(workload_of(asks), seats=1, batching=lambda _: EveryStep())
    assert work(result) == [(1, 0, 1, 4), *[(1, 1, 0, 0)] * 8, (1, 0, 1, 4), (1, 1, 0, 0)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_num_seqs": 0}, "engine.max_num_seqs=0: must be at least 1"),
        ({"max_prefill_tokens": 0}, "engine.max_prefill_tokens=0: must be at least 1"),
        ({"init_new_token_ratio": 0.0}, "engine.init_new_token_ratio=0: must be above 0"),
        ({"min_new_token_ratio_factor": 2.0}, "min_new_token_ratio_factor=2: must be above 0"),
        ({"schedule_conservativeness": -1.0}, "schedule_conservativeness=-1: must be finite"),
        ({"clip_max_new_tokens": 0}, "engine.clip_max_new_tokens=0"),
    ],
)
def test_values_out_of_range_are_refused(options: dict[str, float], message: str) -> None:
    sizes = {"max_num_seqs": 8, "max_num_batched_tokens": 8}
    with pytest.raises(ConfigError, match=message):
        Sglang(**{**sizes, **options})  # type: ignore[arg-type]


class NewestFirst(EvictionPolicy):
    def key(self, owner: int, first_block: int, num_blocks: int, release_index: int) -> float:
        return -float(release_index)


def test_another_order_of_eviction_and_other_pages_are_refused() -> None:
    workload = workload_of([Ask(0, 4, 1)])
    with pytest.raises(ConfigError, match="eviction=NewestFirst: the radix cache"):
        run_sglang(workload, eviction=NewestFirst)
    with pytest.raises(ConfigError, match=r"engine\.block_tokens=4: SGLang's page size"):
        run_sglang(workload, block_tokens=4)
