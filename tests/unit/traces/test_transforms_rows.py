"""Sampling, copies, new arrival times and replay: hand-computed rows."""

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from sim.errors import ConfigError
from sim.workload import Labels
from traces.prefix_compress import compress
from traces.schema import PromptRuns, TraceTable
from traces.transforms import Transforms, transform


def rows(arrival_s: list[float], **columns: Any) -> TraceTable:
    """Row i has i + 1 prompt tokens."""
    n = len(arrival_s)
    return TraceTable(
        arrival_s=np.array(arrival_s, dtype=np.float64),
        prompt_tokens=np.arange(n) + 1,
        output_tokens=np.ones(n, dtype=np.int64),
        provenance={"format": "x"},
        **cast(Any, {name: np.array(values) for name, values in columns.items()}),
    )


def blocks(prompts: list[list[int]], block_tokens: int = 4) -> TraceTable:
    """Prompts of whole blocks, one second apart."""
    counts = [len(prompt) for prompt in prompts]
    return TraceTable(
        arrival_s=np.arange(float(len(prompts))),
        prompt_tokens=np.array(counts) * block_tokens,
        output_tokens=np.ones(len(prompts), dtype=np.int64),
        runs=PromptRuns(
            ids=np.array([i for prompt in prompts for i in prompt], dtype=np.int32),
            offsets=np.append(0, np.cumsum(counts)),
            block_tokens=block_tokens,
        ),
    )


def done(table: TraceTable) -> dict[str, Any]:
    transforms: dict[str, Any] = table.provenance["transforms"]
    return transforms


def test_a_sample_is_about_its_share_and_says_its_seed() -> None:
    table = rows(list(np.arange(10_000.0)))
    kept = transform(table, sample=0.3, seed=7)
    # binomial: 3,000 +- 46; five standard deviations
    assert abs(kept.num_requests - 3000) < 230
    assert done(kept) == {"sample": {"share": 0.3, "seed": 7}}
    assert transform(table, sample=0.3, seed=7).arrival_s.tolist() == kept.arrival_s.tolist()
    assert transform(table, sample=0.3, seed=8).arrival_s.tolist() != kept.arrival_s.tolist()
    assert kept.prompt_tokens.tolist() == (kept.arrival_s + 1).astype(int).tolist()


def test_rows_that_wait_for_one_another_are_sampled_together() -> None:
    pairs = rows([0.0] * 2000, after=[-1 if i % 2 == 0 else i - 1 for i in range(2000)])
    kept = transform(pairs, sample=0.5)
    assert kept.after is not None
    assert kept.after.tolist() == [-1 if i % 2 == 0 else i - 1 for i in range(kept.num_requests)]
    assert 800 < kept.num_requests < 1200


def test_rows_without_a_session_are_drawn_one_by_one() -> None:
    kept = transform(rows([0.0] * 1000, session_id=[-1] * 1000), sample=0.5)
    assert 400 < kept.num_requests < 600


def test_a_sample_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^trace.sample=1e-09: leaves none of 2 requests; give"):
        transform(rows([0, 1]), sample=1e-9)


def test_even_copies_of_three_rows_send_three_rows_each_second() -> None:
    many = transform(rows([0, 1, 2]), copies=3, copy_offsets="even")
    assert many.arrival_s.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert many.prompt_tokens.tolist() == [1, 2, 3] * 3
    assert done(many) == {"copies": {"copies": 3, "offsets": "even"}}


def test_copies_move_whole_sessions_by_their_start() -> None:
    columns = {"session_id": [3, 3, -1], "turn": [0, 1, 0], "parent_id": [-1, 0, -1]}
    many = transform(rows([0, 5, 10], **columns), copies=2, copy_offsets="even")
    # the trace is 15 s long: the copy's session starts at 7.5 s, its single row at 17.5 - 15 s
    assert many.arrival_s.tolist() == [0, 2.5, 5, 7.5, 10, 12.5]
    assert many.prompt_tokens.tolist() == [1, 3, 2, 1, 3, 2]
    assert many.session_id is not None
    assert many.session_id.tolist() == [3, -1, 3, 7, -1, 7]
    assert many.parent_id is not None
    assert many.parent_id.tolist() == [-1, -1, 0, -1, -1, 3]


def test_random_copies_leave_earlier_copies_where_they_are() -> None:
    table = replace(rows([0, 1, 2, 10]), prompt_tokens=np.array([1, 2, 3, 4]))
    two, three = (transform(table, copies=k, seed=1).arrival_s.tolist() for k in (2, 3))
    assert len(three) == 12
    assert all(two.count(time_s) <= three.count(time_s) for time_s in two)
    # same length, other times than those of the trace
    assert max(three) < 10 * 4 / 3
    assert len(set(three)) == 12
    assert done(transform(table, copies=2, seed=1))["copies"]["seed"] == 1


def test_copies_share_only_what_all_prompts_begin_with() -> None:
    table = blocks([[7, 1, 5], [7, 1], [7, 2, 5, 7]])
    many = transform(table, copies=2, copy_offsets="even", seed=0)
    workload = compress(many)
    workload.validate()
    # [7] is everybody's; [7, 1] belongs to two prompts of each copy
    assert sorted(workload.shared_tokens().tolist()) == [4, 4, 8, 8, 8, 8]
    assert sorted(workload.tree.num_tokens.tolist()) == [4, 4, 4]
    assert many.runs is not None
    assert many.runs.ids.dtype == np.int32


def test_a_partial_first_block_is_not_common_to_prompts_of_other_lengths() -> None:
    table = replace(blocks([[7], [7], [7]]), prompt_tokens=np.array([3, 3, 4]))
    workload = compress(transform(table, copies=2, copy_offsets="even"))
    # without it the copies share nothing: two of a kind in each
    assert sorted(workload.shared_tokens().tolist()) == [0, 0, 3, 3, 3, 3]


def test_copies_of_ids_that_leave_no_room_are_renumbered() -> None:
    table = blocks([[7, 1], [7, 2], [7, 1]])
    assert table.runs is not None
    wide = replace(table.runs, ids=table.runs.ids.astype(np.int64) + 2**61)
    many = compress(transform(replace(table, runs=wide), copies=4, copy_offsets="even"))
    few = compress(transform(table, copies=4, copy_offsets="even"))
    assert many.shared_tokens().tolist() == few.shared_tokens().tolist()
    assert many.tree.num_nodes == 5


def test_copies_of_ids_near_the_end_of_32_bits_do_not_wrap_round() -> None:
    table = blocks([[7, 1], [7, 2], [7, 1]])
    assert table.runs is not None
    high = replace(table.runs, ids=(table.runs.ids.astype(np.int64) + 2**30).astype(np.int32))
    many = transform(replace(table, runs=high), copies=4, copy_offsets="even")
    assert many.runs is not None
    assert many.runs.ids.min() == 2**30 + 1
    assert compress(many).tree.num_nodes == 5


def test_copies_multiply_users_and_take_turns() -> None:
    table = replace(rows([0, 0], after=[-1, 0], delay_s=[1.0, 2.0]), concurrency=3)
    many = transform(table, copies=2)
    assert many.concurrency == 6
    assert many.prompt_tokens.tolist() == [1, 1, 2, 2]
    assert many.after is not None
    assert many.after.tolist() == [-1, -1, 0, 1]
    compress(many).validate()


def test_too_many_copies_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"^trace.copies=10000000: 10,000,000 x 2 requests, allo"):
        transform(rows([0, 1]), copies=10_000_000)


def test_poissonised_arrivals_have_the_rate_and_burstiness_of_a_poisson_process() -> None:
    n = 20_000
    table = rows(list(np.repeat(np.arange(n / 10) * 2.5, 10)))
    new = transform(table, poissonise=True, seed=4)
    gaps = np.diff(new.arrival_s)
    length_s = float(table.arrival_s[-1]) * n / (n - 1)
    assert new.prompt_tokens.tolist() == table.prompt_tokens.tolist()
    # first and last of n uniform points lie within a few mean gaps of the ends
    assert 0 <= new.arrival_s[0] < 20 * length_s / n
    assert length_s - 20 * length_s / n < new.arrival_s[-1] < length_s
    # the CV of n exponential gaps has a standard error of about 1 / sqrt(n)
    assert abs(float(gaps.std() / gaps.mean()) - 1) < 5 / np.sqrt(n)
    counts = np.histogram(new.arrival_s, bins=100, range=(0, length_s))[0]
    # variance over mean of 100 counts: standard error sqrt(2 / 100)
    assert abs(counts.var() / counts.mean() - 1) < 5 * np.sqrt(2 / 100)
    assert done(new) == {"poissonise": {"seed": 4}}


def test_poissonised_sessions_keep_the_distances_of_their_turns() -> None:
    table = rows([0, 1, 3, 3, 4], session_id=[0, 1, 0, 1, 2], parent_id=[-1, -1, 0, 1, -1])
    new = transform(table, poissonise=True, seed=2)
    assert new.parent_id is not None
    has_parent = np.flatnonzero(new.parent_id >= 0)
    gaps = new.arrival_s[has_parent] - new.arrival_s[new.parent_id[has_parent]]
    assert sorted(gaps.round(9).tolist()) == [2, 3]
    assert (np.diff(new.arrival_s) >= 0).all()


def test_another_rate_stretches_the_draws_of_a_poissonised_trace() -> None:
    slow = transform(rows([0, 1, 2, 3]), poissonise=True, seed=2)
    fast = transform(rows([0, 2, 4, 6]), poissonise=True, seed=2)
    assert fast.arrival_s.tolist() == pytest.approx((2 * slow.arrival_s).tolist(), rel=1e-12)


def test_one_time_has_no_rate() -> None:
    with pytest.raises(ConfigError, match=r"^trace.poissonise=true: must have starts .* 2 of this"):
        transform(rows([5, 5]), poissonise=True)


def test_a_shift_moves_all_and_not_before_zero() -> None:
    table = rows([2, 3])
    assert transform(table, shift_s=1.5).arrival_s.tolist() == [3.5, 4.5]
    assert transform(table, shift_s=-2).arrival_s.tolist() == [0, 1]
    with pytest.raises(ConfigError, match=r"^trace.shift_s=-2.5: must be >= -2, for the first req"):
        transform(table, shift_s=-2.5)


def test_the_rate_is_scaled_before_the_shift_and_after_the_copies() -> None:
    table = transform(rows([0, 2]), copies=2, copy_offsets="even", rate_scale=2, shift_s=10)
    assert table.arrival_s.tolist() == [10, 10, 11, 11]
    assert list(done(table)) == ["copies", "rate_scale", "shift_s"]


def test_a_replay_sends_rows_in_order_without_times() -> None:
    table = transform(rows([0, 1, 7]), replay_concurrency=2, replay_think_time_s=0.5)
    assert (table.concurrency, table.after) == (2, None)
    assert table.arrival_s.tolist() == [0, 0, 0]
    assert table.delay_s is not None
    assert table.delay_s.tolist() == [0.5, 0.5, 0.5]
    assert done(table)["replay_concurrency"] == {"num_users": 2, "think_time_s": 0.5}


def test_a_replay_chains_the_turns_of_a_session() -> None:
    table = rows([0, 1, 2, 3, 4], session_id=[5, -1, 5, -1, 5])
    table = transform(table, replay_concurrency=1)
    assert table.after is not None
    assert table.after.tolist() == [-1, -1, 0, -1, 2]


def test_a_replay_keeps_the_delays_of_a_closed_loop() -> None:
    table = rows([0, 1, 2], after=[-1, 0, -1], delay_s=[9.0, 4.0, 9.0])
    table = transform(table, replay_concurrency=1, replay_think_time_s=0.25)
    assert table.after is not None
    assert table.after.tolist() == [-1, 0, -1]
    assert table.delay_s is not None
    assert table.delay_s.tolist() == [0.25, 4, 0.25]


def test_anonymised_names_are_numbers_by_first_use() -> None:
    table = rows([0, 1, 2, 3], session_id=[9, -1, 4, 9])
    table = replace(table, tenant=Labels(np.array([2, -1, 0, 2]), ("ann", "bob", "cy")))
    hidden = transform(table, anonymise=True)
    assert hidden.tenant is not None
    names = [hidden.tenant.name_of(i) for i in range(4)]
    assert names == ["tenant_0", None, "tenant_1", "tenant_0"]
    assert hidden.tenant.names == ("tenant_0", "tenant_1")
    assert hidden.session_id is not None
    assert hidden.session_id.tolist() == [0, -1, 1, 0]


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_ids_are_numbered_across_pieces(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traces.transforms.sharing._CHUNK", chunk)
    hidden = transform(blocks([[9, 4, 4], [9, 2], [4, 9, 7]]), anonymise=True)
    assert hidden.runs is not None
    assert hidden.runs.ids.tolist() == [0, 1, 1, 0, 2, 1, 0, 3]


def test_anonymised_ids_count_outputs_too() -> None:
    table = replace(
        rows([0, 1]),
        runs=PromptRuns(
            ids=np.array([50, 50, 30, 2**40]),
            offsets=np.array([0, 1, 4]),
            tokens=np.array([1, 1, 7, 2]),
        ),
        prompt_tokens=np.array([1, 10]),
        output_tokens=np.array([7, 1]),
        output_run=np.array([30, -1]),
    )
    hidden = transform(table, anonymise=True)
    assert hidden.runs is not None
    assert hidden.runs.ids.tolist() == [0, 0, 1, 2]
    assert hidden.output_run is not None
    assert hidden.output_run.tolist() == [1, -1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample": 0}, "trace.sample=0: must be a finite number > 0 and <= 1"),
        ({"sample": 1.1}, "trace.sample=1.1: must be a finite number > 0 and <= 1"),
        ({"copies": 0}, "trace.copies=0: must be an integer from 1 to 10,000,000"),
        ({"copies": 2, "copy_offsets": "odd"}, "trace.copy_offsets='odd': must be random or even,"),
        ({"copy_offsets": "even"}, "trace.copy_offsets=even has no effect: trace.copies is 1;"),
        ({"poissonise": 1}, "trace.poissonise=1: must be true or false"),
        ({"anonymise": "yes"}, "trace.anonymise='yes': must be true or false"),
        ({"strip_prefixes": None}, "trace.strip_prefixes=None: must be true or false"),
        ({"shift_s": 1e10}, "trace.shift_s=10000000000.0: must be a finite number >= -1e+09 and"),
        ({"scale_prompt": 0}, "trace.scale_prompt=0: must be a finite number >= 1e-06 and <="),
        ({"max_output_tokens": 0}, "trace.max_output_tokens=0: must be an integer >= 1"),
        ({"max_prompt_tokens": 1.5}, "trace.max_prompt_tokens=1.5: must be an integer >= 1"),
        ({"replay_concurrency": 0}, "trace.replay_concurrency=0: must be an integer from 1 to"),
        ({"replay_think_time_s": 1}, "trace.replay_think_time_s=1 has no effect: trace.replay_con"),
        (
            {"replay_concurrency": 1, "replay_think_time_s": -1},
            "trace.replay_think_time_s=-1: must be a finite number >= 0",
        ),
        ({"replay_concurrency": 1, "rate_scale": 2.0}, "trace.rate_scale=2.0 has no effect: with"),
        (
            {"replay_concurrency": 1, "poissonise": True},
            "trace.poissonise=True has no effect: wi",
        ),
        ({"replay_concurrency": 1, "shift_s": 3.0}, "trace.shift_s=3.0 has no effect: with trace"),
    ],
)
def test_bad_options_are_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Transforms(**options)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("name", ["rate_scale", "poissonise"])
def test_times_mean_nothing_to_a_fixed_number_of_users(name: str) -> None:
    table = replace(rows([0, 0]), concurrency=2)
    options: dict[str, Any] = {name: {"rate_scale": 2.0, "poissonise": True}[name]}
    with pytest.raises(ConfigError, match=rf"^trace.{name}=.* has no effect: 2 users send"):
        transform(table, **options)
