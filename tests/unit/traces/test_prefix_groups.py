"""Prefix groups: lengths per group, deviating requests, warm start; sharing counted by hand."""

import math
from typing import Any

import numpy as np
import pytest

from sim.errors import ConfigError
from sim.workload import Workload
from traces.build import build_workload
from traces.synthetic.prefix_groups import PrefixGroupsTrace

FIXED = {"kind": "fixed", "value": 10}
N = 20_000


def groups(**changes: Any) -> PrefixGroupsTrace:
    options = {
        "num_requests": N,
        "rate_per_s": 4.0,
        "num_groups": 10,
        "prefix_tokens": 101,
        "suffix": FIXED,
        "output": FIXED,
    }
    return PrefixGroupsTrace(**{**options, **changes})


def reused_tokens(workload: Workload) -> int:
    """Prompt tokens that an earlier prompt has brought into an infinite cache."""
    seen: set[int] = set()
    reused = 0
    for row in range(workload.num_requests):
        for node in workload.path(row):
            reused += int(workload.tree.num_tokens[node]) if node in seen else 0
            seen.add(node)
    return reused


def test_prefixes_of_drawn_length_are_the_same_for_a_whole_group() -> None:
    lengths = {"kind": "uniform", "low": 50, "high": 5000}
    table = groups(prefix_tokens=lengths, skew=1.0).load(1)
    assert table.runs is not None
    assert table.runs.tokens is not None
    assert (table.prompt_tokens - 10).tolist() == table.runs.tokens.tolist()
    pairs = set(zip(table.runs.ids.tolist(), table.runs.tokens.tolist(), strict=True))
    assert len(pairs) == 10
    assert len({tokens for _, tokens in pairs}) == 10
    assert all(50 <= tokens <= 5000 for _, tokens in pairs)
    many = groups(num_groups=N, prefix_tokens=lengths).load(1)
    assert many.prompt_tokens.mean() == pytest.approx(2535, abs=4 * 1430 / math.sqrt(N / 2))


def test_another_rate_or_skew_changes_no_prefix() -> None:
    lengths = {"kind": "uniform", "low": 50, "high": 5000}
    sizes = []
    for change in ({}, {"skew": 2.0}, {"rate_per_s": 8.0}):
        runs = groups(prefix_tokens=lengths, **change).load(1).runs
        assert runs is not None
        assert runs.tokens is not None
        sizes.append(dict(zip(runs.ids.tolist(), runs.tokens.tolist(), strict=True)))
    assert sizes[0] == sizes[1] == sizes[2]


def test_the_number_of_prefixes_seen_is_that_of_throwing_balls_into_bins() -> None:
    """400 groups, 600 requests: 400 (1 - (1 - 1/400)^600) = 311.0 used, standard deviation 6.7."""
    used = []
    for seed in range(40):
        runs = groups(num_requests=600, num_groups=400).load(seed).runs
        assert runs is not None
        used.append(len(set(runs.ids.tolist())))
    none, two = (1 - 1 / 400) ** 600, (1 - 2 / 400) ** 600
    variance = 400 * none * (1 - none) + 400 * 399 * (two - none**2)
    assert np.mean(used) == pytest.approx(400 * (1 - none), abs=4 * math.sqrt(variance / 40))


def test_an_infinite_cache_reuses_all_but_the_first_prefix_of_each_group() -> None:
    workload = build_workload(groups(), seed=1)
    assert reused_tokens(workload) == (N - 10) * 101


def test_deviating_requests_share_the_first_part_of_the_prefix_only() -> None:
    """30 of 101 tokens: 0.3 times 101, rounded down."""
    trace = groups(deviating_ratio=0.25, deviate_after=0.3)
    workload = build_workload(trace, seed=1)
    shared = workload.shared_tokens()
    assert set(shared.tolist()) == {30, 101}
    assert (shared == 30).mean() == pytest.approx(0.25, abs=4 * math.sqrt(0.1875 / N))
    assert set(workload.prompt_tokens.tolist()) == {111}
    assert sorted(workload.tree.num_tokens.tolist()) == [30] * 10 + [71] * 10
    runs = trace.load(1).runs
    assert runs is not None
    assert sorted(set(runs.ids.tolist())) == list(range(20))
    num_whole = int((shared == 101).sum())
    assert reused_tokens(workload) == (N - 10) * 30 + (num_whole - 10) * 71
    assert len(set(workload.path_nodes[workload.path_offsets[:-1]].tolist())) == 10


def test_requests_that_deviate_at_once_are_private() -> None:
    workload = build_workload(groups(deviating_ratio=0.25, deviate_after=0), seed=1)
    shared = workload.shared_tokens()
    assert set(shared.tolist()) == {0, 101}
    assert (shared == 0).mean() == pytest.approx(0.25, abs=4 * math.sqrt(0.1875 / N))
    assert set(workload.prompt_tokens.tolist()) == {111}
    everybody = build_workload(groups(deviating_ratio=1, deviate_after=0), seed=1)
    assert everybody.tree.num_nodes == 0


def test_nobody_deviates_at_the_end_of_the_prefix_or_at_ratio_0() -> None:
    for change in ({"deviating_ratio": 0.5, "deviate_after": 1}, {"deviate_after": 0}):
        assert set(build_workload(groups(**change), seed=1).shared_tokens().tolist()) == {101}


def test_a_higher_ratio_lets_more_requests_deviate_and_the_same_ones_too() -> None:
    few, many = (
        build_workload(groups(deviating_ratio=ratio), seed=1).shared_tokens() < 101
        for ratio in (0.1, 0.4)
    )
    assert (few & ~many).sum() == 0
    assert 3 * few.sum() < many.sum() < 5 * few.sum()


def test_a_warm_start_sends_each_prefix_once_before_the_load() -> None:
    lengths = {"kind": "uniform", "low": 50, "high": 5000}
    warm = groups(prefix_tokens=lengths, warm_start_s=60.0).load(1)
    cold = groups(prefix_tokens=lengths).load(1)
    assert warm.num_requests == N + 10
    assert warm.provenance["num_rows"] == N + 10
    assert warm.arrival_s[:10].tolist() == [0.0] * 10
    assert warm.arrival_s[10:].tolist() == (60.0 + cold.arrival_s).tolist()
    assert warm.output_tokens[:10].tolist() == [1] * 10
    assert warm.runs is not None
    assert warm.runs.tokens is not None
    assert warm.runs.ids[:10].tolist() == list(range(10))
    assert warm.prompt_tokens[:10].tolist() == warm.runs.tokens[:10].tolist()
    assert warm.prompt_tokens[10:].tolist() == cold.prompt_tokens.tolist()
    assert cold.slo_class is None
    assert warm.slo_class is not None
    assert [warm.slo_class.name_of(row) for row in (0, 9, 10, N + 9)] == [
        "warm_start",
        "warm_start",
        None,
        None,
    ]
    workload = build_workload(groups(warm_start_s=60.0), seed=1)
    assert reused_tokens(workload) == N * 101


def test_requests_of_a_warm_start_do_not_deviate() -> None:
    trace = groups(warm_start_s=0.0, deviating_ratio=1, deviate_after=0.5, num_requests=1000)
    workload = build_workload(trace, seed=1)
    assert workload.shared_tokens()[:10].tolist() == [50] * 10
    assert workload.prompt_tokens[:10].tolist() == [101] * 10
    runs = trace.load(1).runs
    assert runs is not None
    assert np.diff(runs.offsets).tolist() == [2] * 10 + [1] * 1000


def test_users_may_take_the_requests() -> None:
    users = {"kind": "closed_loop", "concurrency": 4, "think_time_s": 2.0}
    table = groups(arrivals=users, warm_start_s=5.0).load(1)
    assert table.concurrency == 4
    assert table.delay_s is not None
    assert table.delay_s[:10].tolist() == [0.0] * 10
    assert table.delay_s[10:].mean() == pytest.approx(2.0, rel=4 / math.sqrt(N))
    assert table.arrival_s.tolist() == [0.0] * 10 + [5.0] * N
    assert table.after is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prefix_tokens": "9"}, "trace.prefix_tokens='9': must be an integer from 1 to"),
        ({"prefix_tokens": {"kind": "x"}}, "trace.prefix_tokens.kind='x': must be one of"),
        ({"deviating_ratio": 1.1}, "trace.deviating_ratio=1.1: must be a finite number >= 0 and"),
        ({"deviate_after": -1}, "trace.deviate_after=-1: must be a finite number >= 0 and <= 1"),
        ({"warm_start_s": -1}, "trace.warm_start_s=-1: must be a finite number >= 0 and <= 1e+09"),
        ({"warm_start_s": True}, "trace.warm_start_s=True: must be a finite number"),
        ({"arrivals": "x"}, "trace.arrivals.kind='x': must be one of poisson, gamma"),
    ],
)
def test_bad_options_are_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        groups(**options)
    assert str(caught.value).startswith(message)
