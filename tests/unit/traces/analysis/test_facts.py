"""Arrivals, lengths, sharing and sessions of small traces, by hand."""

from dataclasses import replace

import numpy as np
import pytest

from sim.prefix_tree import PrefixTree
from sim.workload import Workload
from traces.analysis.arrivals import burstiness, rate_over_time
from traces.analysis.sessions import sessions_of
from traces.analysis.sharing import SharedPrefix, SharingDepth, top_prefixes
from traces.analysis.spread import Spread


def workload(arrival_s: list[float]) -> Workload:
    n = len(arrival_s)
    return Workload.without_sharing(np.array(arrival_s), np.arange(n) + 1, np.full(n, 2))


def test_a_spread_is_numpys() -> None:
    assert Spread.of(np.arange(101)) == Spread(101, 50.0, 0.0, 50.0, 90.0, 99.0, 100.0)
    assert Spread.of(np.empty(0)) is None


def test_regular_arrivals_are_not_bursty() -> None:
    found = burstiness(np.arange(0, 100, 0.5))
    assert found.mean_rate_per_s == pytest.approx(2.0)
    assert found.inter_arrival_cv == pytest.approx(0.0)
    # whole windows that fit into 99.5 s: ten of 10 s do not
    assert found.fano.keys() == {0.1, 1.0}
    assert found.fano[1.0] == 0.0
    # two of ten windows of 0.1 s hold one arrival each: p (1 - p) / p with p = 0.2
    assert found.fano[0.1] == pytest.approx(0.8, abs=0.01)


def test_pairs_are_twice_as_bursty_by_counts() -> None:
    found = burstiness(np.repeat(np.arange(0, 30, 0.5), 2))
    # gaps 0, 0.5, 0, 0.5, ... : one more zero than halves
    gaps = np.array([0.0, 0.5] * 59 + [0.0])
    assert found.inter_arrival_cv == pytest.approx(gaps.std() / gaps.mean())
    assert found.mean_rate_per_s == pytest.approx(119 / 29.5)


def test_poisson_arrivals_have_a_cv_and_fano_factors_of_one() -> None:
    n = 50_000
    found = burstiness(np.cumsum(np.random.default_rng(3).exponential(0.1, n)))
    assert found.inter_arrival_cv == pytest.approx(1, abs=5 / np.sqrt(n))
    assert found.fano.keys() == {0.1, 1.0, 10.0, 60.0}
    for window_s, fano in found.fano.items():
        num_windows = int(n * 0.1 / window_s)
        # standard error of a variance over a mean: sqrt(2 / windows), more where counts are small
        error = np.sqrt(2 / num_windows) * np.sqrt(1 + window_s / 2 / window_s)
        assert fano == pytest.approx(1, abs=5 * error)


def test_one_instant_has_no_rate() -> None:
    assert burstiness(np.array([3.0, 3.0])).mean_rate_per_s is None
    assert burstiness(np.array([3.0])).fano == {}
    assert rate_over_time(workload([3.0, 3.0])).requests_per_s.tolist() == [2.0]


def test_the_rate_over_time_counts_requests_and_tokens() -> None:
    found = rate_over_time(workload([4.0, 4.5, 300.0]))
    # 296 s in at most 150 bins: 2 s each, from 4 s on
    assert (found.bin_s, found.start_s[0]) == (2.0, 4.0)
    assert found.requests_per_s[[0, 1, -1]].tolist() == [1.0, 0.0, 0.5]
    assert found.prompt_tokens_per_s[[0, -1]].tolist() == [1.5, 1.5]
    assert found.output_tokens_per_s[[0, -1]].tolist() == [2.0, 1.0]
    assert found.requests_per_s.sum() * found.bin_s == 3


@pytest.mark.parametrize(
    ("span_s", "bin_s"), [(1, 0.01), (150, 1), (151, 2), (7200, 50), (1e6, 1e4)]
)
def test_bins_have_a_round_length(span_s: float, bin_s: float) -> None:
    assert rate_over_time(workload([0, span_s])).bin_s == pytest.approx(bin_s)


def shared() -> Workload:
    """Node 0 of 100 tokens in three prompts, node 1 of 10 below it in two of them."""
    base = workload([0.0, 1.0, 2.0, 3.0])
    return replace(
        base,
        prompt_tokens=np.array([120, 110, 50, 110]),
        path_offsets=np.array([0, 1, 3, 3, 5]),
        path_nodes=np.array([0, 0, 1, 0, 1]),
        tree=PrefixTree.from_parents(np.array([-1, 0]), np.array([100, 10])),
    )


def test_sharing_depth_counts_tokens_and_nodes() -> None:
    depth = SharingDepth.of(shared())
    assert depth.shared_tokens.tolist() == [100, 110, 0, 110]
    assert depth.num_nodes.tolist() == [1, 2, 0, 2]


def test_top_prefixes_are_those_that_save_most() -> None:
    assert top_prefixes(shared()) == [
        SharedPrefix(0, 100, 3, 0, 200),
        SharedPrefix(100, 10, 2, 1, 10),
    ]
    assert top_prefixes(shared(), 1) == [SharedPrefix(0, 100, 3, 0, 200)]
    assert top_prefixes(workload([0.0])) == []


def test_sessions_are_counted_with_their_gaps() -> None:
    base = replace(workload([0, 1, 3, 4, 10]), session_id=np.array([5, 2, 5, -1, 5]))
    found = sessions_of(base)
    assert found is not None
    assert (found.num_sessions, found.num_requests, found.delay_s) == (2, 4, None)
    assert (found.turns.min, found.turns.mean, found.turns.max) == (1.0, 2.0, 3.0)
    assert found.gap_s is not None
    assert (found.gap_s.num, found.gap_s.min, found.gap_s.max) == (2, 3.0, 7.0)


def test_many_interleaved_sessions_keep_the_order_of_their_turns() -> None:
    base = replace(workload(list(np.arange(60.0))), session_id=np.arange(60) % 3)
    found = sessions_of(base)
    assert found is not None
    assert found.gap_s == Spread(57, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0)


def test_delays_are_those_of_rows_that_wait() -> None:
    base = replace(
        workload([0, 1, 2]),
        session_id=np.zeros(3, dtype=np.int64),
        after=np.array([-1, 0, 1]),
        delay_s=np.array([99.0, 2.0, 4.0]),
    )
    found = sessions_of(base)
    assert found is not None
    assert found.delay_s == Spread.of(np.array([2.0, 4.0]))


def test_no_sessions_are_none() -> None:
    assert sessions_of(workload([0.0])) is None
    assert sessions_of(replace(workload([0.0]), session_id=np.array([-1]))) is None
