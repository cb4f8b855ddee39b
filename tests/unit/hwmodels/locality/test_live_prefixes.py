"""Sums kept request by request against sums over all requests."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwmodels.kernels.live_prefixes import LivePrefixes
from hwmodels.kernels.prefix_batch import PrefixBatch
from hwmodels.kernels.tree_traffic import tree_traffic
from tests.unit.hwmodels.locality.devices import A100_L2
from tests.unit.hwmodels.locality.test_prefix_batch import histogram

NODE_TOKENS = [1000, 300, 50, 700, 16]
PATHS = [(), (0,), (0, 1), (0, 1, 2), (3,), (3, 4)]


def from_scratch(requests: dict[int, tuple[tuple[int, ...], int]]) -> PrefixBatch:
    """The same batch node by node: shared nodes, and one of its own per request."""
    nodes = sorted({node for path, _ in requests.values() for node in path})
    rows = {node: row for row, node in enumerate(nodes)}
    above = {0: -1, 1: 0, 2: 1, 3: -1, 4: 3}
    parents = [-1 if above[node] < 0 else rows[above[node]] for node in nodes]
    members = [sum(node in path for path, _ in requests.values()) for node in nodes]
    tokens = [NODE_TOKENS[node] for node in nodes]
    for path, context in requests.values():
        parents.append(rows[path[-1]] if path else -1)
        members.append(1)
        tokens.append(context - sum(NODE_TOKENS[node] for node in path))
    return PrefixBatch.from_tree(parents, tokens, members)


def assert_equal(found: PrefixBatch, expected: PrefixBatch) -> None:
    assert histogram(found) == histogram(expected)
    for name in ("batch_size", "context_tokens_max", "sum_squares", "num_partials"):
        assert getattr(found, name) == getattr(expected, name), name


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("admit"), st.sampled_from(PATHS), st.integers(1, 400)),
        st.tuples(st.just("finish"), st.integers(0, 10**6), st.just(0)),
        st.tuples(st.just("advance"), st.integers(1, 50), st.just(0)),
    ),
    max_size=60,
)


@given(EVENTS)
@settings(max_examples=150, deadline=None)
def test_any_sequence_of_events_equals_the_sums_from_scratch(
    events: list[tuple[str, object, int]],
) -> None:
    live, requests, admitted = LivePrefixes(NODE_TOKENS), {}, 0
    for kind, what, own in events:
        if kind == "admit":
            assert isinstance(what, tuple)
            context = sum(NODE_TOKENS[node] for node in what) + own
            live.admit(admitted, what, context)
            requests[admitted] = (what, context)
            admitted += 1
        elif kind == "finish" and requests:
            assert isinstance(what, int)
            name = list(requests)[what % len(requests)]
            live.finish(name)
            del requests[name]
        elif kind == "advance":
            assert isinstance(what, int)
            live.advance(what)
            requests = {name: (path, have + what) for name, (path, have) in requests.items()}
        assert live.batch_size == len(requests)
        if requests:
            assert_equal(live.batch(), from_scratch(requests))


@pytest.mark.parametrize("order", ["contiguous", "interleaved"])
def test_a_run_of_steps_equals_the_steps_one_by_one(order: str) -> None:
    live = LivePrefixes(NODE_TOKENS)
    for name in range(40):
        live.admit(name, PATHS[name % len(PATHS)], 2000 + 37 * name)
    # The number of splits, and with it the requests per wave, changes within the run.
    per_wave = np.where(np.arange(300) < 120, 9.0, 4.5)
    options = {"token_bytes": 4096.0, "drift_tokens": 128.0, "member_order": order}
    run = tree_traffic(
        live.batch(),
        A100_L2,
        requests_per_wave=per_wave,
        num_steps=300,
        **options,  # type: ignore[arg-type]
    )
    for step in range(300):
        one = tree_traffic(
            live.batch(),
            A100_L2,
            requests_per_wave=per_wave[step],
            **options,  # type: ignore[arg-type]
        )
        for which in ("logical_bytes", "unique_bytes", "hbm_bytes", "wave_bytes"):
            assert getattr(run, which)[step] == pytest.approx(getattr(one, which)[0], rel=1e-12)
        live.advance(1)


def test_finished_requests_leave_nothing_behind() -> None:
    live = LivePrefixes(NODE_TOKENS)
    live.admit("longest", (0,), 10**6)
    for name in range(2000):
        live.admit(name, (0, 1), 1500)
        live.finish(name)
    assert len(live._longest) < 100
    live.finish("longest")
    live.admit("last", (3,), 701)
    assert histogram(live.batch()) == {1: 701}
    assert live.batch().context_tokens_max == 701


def test_a_key_may_come_back_with_a_shorter_context() -> None:
    live = LivePrefixes(NODE_TOKENS)
    live.admit("a", (0,), 5000)
    live.finish("a")
    live.admit("a", (0,), 1010)
    assert live.batch().context_tokens_max == 1010


def test_mistakes_are_named() -> None:
    live = LivePrefixes(NODE_TOKENS)
    with pytest.raises(ValueError, match="no request decodes"):
        live.batch()
    with pytest.raises(ValueError, match="must exceed the path's 1300: 1300"):
        live.admit("a", (0, 1), 1300)
    live.admit("a", (0, 1), 1301)
    with pytest.raises(ValueError, match="'a' is running already"):
        live.admit("a", (), 5)
    with pytest.raises(KeyError):
        live.finish("b")
