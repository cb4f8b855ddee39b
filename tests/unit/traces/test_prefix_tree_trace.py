"""Prefix trees: levels, lengths, popularity and sharing against counting and theory."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy import stats

from sim.errors import ConfigError
from traces.build import build_workload
from traces.schema import TraceTable
from traces.synthetic.popularity import zipf_probabilities
from traces.synthetic.prefix_tree import PrefixTreeTrace

FIXED = {"kind": "fixed", "value": 10}
N = 20_000


def tree(**changes: Any) -> PrefixTreeTrace:
    options = {
        "num_requests": N,
        "rate_per_s": 4.0,
        "fan_out": [1, 4, 8],
        "level_tokens": [100, 20, 3],
        "suffix": FIXED,
        "output": FIXED,
    }
    return PrefixTreeTrace(**{**options, **changes})


def tree_of_two(**changes: Any) -> PrefixTreeTrace:
    return tree(**{"level_tokens": [100, 20], "fan_out": [10, 20], **changes})


def levels_of(table: TraceTable) -> np.ndarray:
    """Ids of each row's nodes. Shape (n, levels)."""
    assert table.runs is not None
    return table.runs.ids.reshape(table.num_requests, -1)


def test_every_prompt_is_a_path_of_one_node_per_level() -> None:
    workload = build_workload(tree(), seed=1)
    assert Counter(workload.tree.num_tokens.tolist()) == {100: 1, 20: 4, 3: 32}
    assert set(workload.prompt_tokens.tolist()) == {133}
    assert set(np.diff(workload.path_offsets).tolist()) == {3}
    assert set(workload.shared_tokens().tolist()) == {123}
    children = Counter(workload.tree.parent.tolist())
    (root,) = np.flatnonzero(workload.tree.parent == -1).tolist()
    assert children.pop(-1) == 1
    assert children.pop(root) == 4
    assert list(children.values()) == [8] * 4


def test_nodes_of_two_levels_never_share_an_id_and_children_have_one_parent() -> None:
    ids = levels_of(tree(fan_out=[3, 2, 5], level_tokens=[1, 1, 1]).load(2))
    assert [sorted(set(ids[:, i].tolist())) for i in range(3)] == [
        [0, 1, 2],
        list(range(3, 9)),
        list(range(9, 39)),
    ]
    for level in (1, 2):
        pairs = set(zip(ids[:, level - 1].tolist(), ids[:, level].tolist(), strict=True))
        assert len(pairs) == len({child for _, child in pairs})


def test_leaves_are_as_popular_as_the_zipf_law_says_in_an_order_that_is_drawn() -> None:
    leaf = levels_of(tree(skew=1.2).load(1))[:, 2] - 5
    counts = np.bincount(leaf, minlength=32)
    by_rank = np.sort(counts)[::-1]
    # Sorting the counts favours the law a little; the ranks of the first leaves are sure.
    assert stats.chisquare(by_rank, zipf_probabilities(32, 1.2) * N).pvalue > 1e-3
    other = np.bincount(levels_of(tree(skew=1.2).load(2))[:, 2] - 5)
    assert counts.argmax() != other.argmax()
    top = np.argsort(-counts)[:8]
    assert len(set((top // 8).tolist())) > 1


def test_without_skew_all_leaves_are_equally_popular() -> None:
    counts = np.bincount(levels_of(tree().load(3))[:, 2] - 5, minlength=32)
    assert stats.chisquare(counts).pvalue > 1e-3


def test_lengths_are_drawn_once_for_each_node() -> None:
    lengths = {"kind": "uniform", "low": 50, "high": 500_000}
    table = tree(level_tokens=[7, lengths, 1]).load(1)
    assert table.runs is not None
    assert table.runs.tokens is not None
    tokens = table.runs.tokens.reshape(N, 3)
    pairs = set(zip(levels_of(table)[:, 1].tolist(), tokens[:, 1].tolist(), strict=True))
    assert len(pairs) == len({length for _, length in pairs}) == 4
    assert (table.prompt_tokens == tokens.sum(axis=1) + 10).all()
    twice = tree(level_tokens=[lengths, lengths, 1], fan_out=[1, 1, 1]).load(1)
    assert twice.runs is not None
    assert twice.runs.tokens is not None
    assert len(set(twice.runs.tokens.tolist())) == 3
    other = tree(level_tokens=[{"kind": "uniform", "low": 1, "high": 9}, lengths, 1]).load(1)
    assert other.runs is not None
    assert other.runs.tokens is not None
    assert other.runs.tokens.reshape(N, 3)[:, 1].tolist() == tokens[:, 1].tolist()


def test_an_infinite_cache_holds_each_node_that_was_used_once() -> None:
    """m equally popular nodes of a level are used by n requests: m (1 - (1 - 1/m)^n) of them."""
    num, distinct = 300, []
    for seed in range(40):
        ids = levels_of(tree_of_two(num_requests=num).load(seed))
        distinct.append([len(set(ids[:, level].tolist())) for level in (0, 1)])
    for level, nodes in enumerate((10, 200)):
        none, two = (1 - 1 / nodes) ** num, (1 - 2 / nodes) ** num
        variance = nodes * none * (1 - none) + nodes * (nodes - 1) * (two - none**2)
        error = math.sqrt(max(variance, 0.0) / 40)
        mean = np.mean(distinct, axis=0)[level]
        assert mean == pytest.approx(nodes * (1 - none), abs=4 * error + 1e-6)


def test_streams_are_apart() -> None:
    one, other = tree().load(1), tree(output={"kind": "fixed", "value": 3}, rate_per_s=8.0).load(1)
    assert one.prompt_tokens.tolist() == other.prompt_tokens.tolist()
    assert levels_of(one).tolist() == levels_of(other).tolist()
    assert (one.arrival_s == 2 * other.arrival_s).all()
    again = tree().load(1)
    assert levels_of(one).tolist() == levels_of(again).tolist()
    assert one.arrival_s.tobytes() == again.arrival_s.tobytes()
    assert levels_of(one).tolist() != levels_of(tree().load(2)).tolist()


def test_users_may_take_the_requests_and_provenance_tells_the_options() -> None:
    table = tree(arrivals={"kind": "closed_loop", "concurrency": 4, "think_time_s": 2.0}).load(1)
    assert table.concurrency == 4
    assert table.delay_s is not None
    assert table.delay_s.mean() == pytest.approx(2.0, rel=4 / math.sqrt(N))
    assert table.provenance["format"] == "prefix_tree"
    assert table.provenance["options"]["fan_out"] == [1, 4, 8]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fan_out": []}, "trace.fan_out=[]: must be a list of 1 to 100 levels"),
        ({"fan_out": 4}, "trace.fan_out=4: must be a list of 1 to 100 levels"),
        ({"fan_out": "48"}, "trace.fan_out='48': must be a list of 1 to 100 levels"),
        ({"level_tokens": None}, "trace.level_tokens=None: must be a list of 1 to 100 levels"),
        (
            {"fan_out": [4, 8]},
            "trace.fan_out has 2 levels, trace.level_tokens 3: must be as many",
        ),
        ({"fan_out": [1, 0, 8]}, "trace.fan_out[1]=0: must be an integer from 1 to 10,000,000"),
        ({"level_tokens": [1, 2, 0]}, "trace.level_tokens[2]=0: must be an integer from 1 to"),
        (
            {"level_tokens": [1, {"kind": "x"}, 2]},
            "trace.level_tokens[1].kind='x': must be one of fixed",
        ),
        (
            {"fan_out": [1, 10_000, 1001]},
            "trace.fan_out=[1, 10000, 1001]: makes more nodes than allowed, which are 10,000,000",
        ),
        (
            {"num_requests": 10_000_000, "fan_out": [1] * 11, "level_tokens": [1] * 11},
            "trace.num_requests=10000000: makes 110,000,000 runs with 11 levels, allowed: 100,000,",
        ),
        ({"skew": -1}, "trace.skew=-1: must be a finite number >= 0 and <= 100"),
        ({"rate_per_s": 0}, "trace.rate_per_s=0: must be a finite number >= 1e-09"),
        ({"suffix": 3}, "trace.suffix=3: must be a mapping"),
    ],
)
def test_bad_options_are_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        tree(**options)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_hundred_levels_of_the_largest_fan_out_are_one_line_too() -> None:
    with pytest.raises(ConfigError, match="makes more nodes than allowed"):
        tree(fan_out=[10_000_000] * 100, level_tokens=[1] * 100)
