"""The compressed tree against token lists that are compared one token at a time."""

from itertools import combinations
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.prefix_tree import NO_NODE
from sim.workload import Workload
from traces import chained_keys, shared_nodes
from traces.prefix_compress import compress
from traces.run_keys import keyed_runs
from traces.schema import PromptRuns, TraceTable

Run = tuple[int, int]
Token = tuple[int, int, int]

runs_of_a_prompt = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([1, 1, 1, 2, 5])), max_size=7
)


def run_table(prompts: list[list[Run]], tails: list[int], outputs: list[Run | None]) -> TraceTable:
    """Prompts of runs and a private tail; a request with an output run has no tail."""
    flat = [run for prompt in prompts for run in prompt]
    tails = [0 if out else tail for tail, out in zip(tails, outputs, strict=True)]
    n = len(prompts)
    return TraceTable(
        arrival_s=np.arange(n, dtype=np.float64),
        prompt_tokens=np.array(
            [sum(t for _, t in p) + tail for p, tail in zip(prompts, tails, strict=True)]
        ),
        output_tokens=np.array([out[1] if out else 1 for out in outputs]),
        output_run=np.array([out[0] if out else -1 for out in outputs]),
        runs=PromptRuns(
            ids=np.array([i for i, _ in flat], dtype=np.int64),
            offsets=np.cumsum([0, *map(len, prompts)]),
            tokens=np.array([t for _, t in flat], dtype=np.int64),
        ),
    )


def tokens_of(runs: list[Run]) -> list[Token]:
    return [(i, t, j) for i, t in runs for j in range(t)]


def num_equal(left: list[Token], right: list[Token]) -> int:
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count


def check_tree(workload: Workload) -> None:
    tree = workload.tree
    for node, parent in enumerate(tree.parent.tolist()):
        assert parent < node
        above = 0 if parent == NO_NODE else tree.end_tokens[parent]
        assert tree.start_tokens[node] == above
        assert tree.num_tokens[node] >= 1
    for i in range(workload.num_requests):
        path = workload.path(i)
        assert not path or path == tree.path_to(path[-1])
    workload.validate()


def kv_path(workload: Workload, row: int) -> tuple[int, ...]:
    assert workload.output_node is not None
    output = int(workload.output_node[row])
    if output == NO_NODE:
        return workload.path(row)
    path = workload.path(row)
    assert workload.tree.parent[output] == (path[-1] if path else NO_NODE)
    return (*path, output)


def shared_length(workload: Workload, left: tuple[int, ...], right: tuple[int, ...]) -> int:
    common = [a for a, b in zip(left, right, strict=False) if a == b]
    assert common == list(left[: len(common)])
    return int(workload.tree.num_tokens[common].sum()) if common else 0


@pytest.mark.parametrize("way", ["chain", "radix"])
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_shared_length_of_any_two_requests_is_that_of_their_tokens(
    way: str, data: st.DataObject
) -> None:
    prompts = data.draw(st.lists(runs_of_a_prompt, min_size=1, max_size=8))
    n = len(prompts)
    outputs = data.draw(
        st.lists(st.none() | st.tuples(st.integers(0, 3), st.just(1)), min_size=n, max_size=n)
    )
    outputs = [out if prompt else None for out, prompt in zip(outputs, prompts, strict=True)]
    if way == "chain":
        prompts, outputs = chained(prompts, outputs)
    table = run_table(prompts, [3] * n, outputs)
    if way == "chain":
        assert shared_nodes.by_chain(keyed_runs(table)) is not None or not sum(map(len, prompts))
    workload = compress(table)
    check_tree(workload)
    whole = [p + ([out] if out else []) for p, out in zip(prompts, outputs, strict=True)]
    for i, j in combinations(range(n), 2):
        expected = num_equal(tokens_of(prompts[i]), tokens_of(prompts[j]))
        assert shared_length(workload, workload.path(i), workload.path(j)) == expected
        expected = num_equal(tokens_of(whole[i]), tokens_of(whole[j]))
        assert shared_length(workload, kv_path(workload, i), kv_path(workload, j)) == expected


def chained(
    prompts: list[list[Run]], outputs: list[Run | None]
) -> tuple[list[list[Run]], list[Run | None]]:
    """The same sharing with ids that name the whole prefix, as chained hashes do."""
    number: dict[tuple[Run, ...], int] = {}

    def rename(prefix: list[Run]) -> Run:
        return number.setdefault(tuple(prefix), len(number)), prefix[-1][1]

    new_prompts = [[rename(p[: k + 1]) for k in range(len(p))] for p in prompts]
    new_outputs = [
        rename([*p, out]) if out else None for p, out in zip(prompts, outputs, strict=True)
    ]
    return new_prompts, new_outputs


@settings(max_examples=200, deadline=None)
@given(st.lists(runs_of_a_prompt, min_size=1, max_size=10), st.data())
def test_both_ways_to_find_shared_nodes_agree(
    prompts: list[list[Run]], data: st.DataObject
) -> None:
    has_output = data.draw(st.lists(st.booleans(), min_size=len(prompts), max_size=len(prompts)))
    outputs: list[Run | None] = [
        (3, 2) if o and p else None for o, p in zip(has_output, prompts, strict=True)
    ]
    prompts, outputs = chained(prompts, outputs)
    runs = keyed_runs(run_table(prompts, [1] * len(prompts), outputs))
    with patch.object(chained_keys, "_CHUNK_KEYS", data.draw(st.sampled_from([1, 3, 8, 1 << 18]))):
        by_chain = shared_nodes.by_chain(runs)
    by_radix = shared_nodes.by_radix(runs)
    if by_chain is None:
        assert not len(runs.keys)
        return
    for name in ("first", "num_keys", "parent", "prompt_leaf", "output_node"):
        assert getattr(by_chain, name).tolist() == getattr(by_radix, name).tolist(), name


@settings(max_examples=150, deadline=None)
@given(
    prompts=st.lists(
        st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=6), st.integers(1, 4)),
        min_size=1,
        max_size=8,
    ),
    block_tokens=st.just(4),
)
def test_block_ids_share_as_their_tokens_do(
    prompts: list[tuple[list[int], int]], block_tokens: int
) -> None:
    lengths = [(len(ids) - 1) * block_tokens + last for ids, last in prompts]
    table = TraceTable(
        arrival_s=np.zeros(len(prompts)),
        prompt_tokens=np.array(lengths),
        output_tokens=np.ones(len(prompts), dtype=np.int64),
        runs=PromptRuns(
            ids=np.array([i for ids, _ in prompts for i in ids], dtype=np.int32),
            offsets=np.cumsum([0, *(len(ids) for ids, _ in prompts)]),
            block_tokens=block_tokens,
        ),
    )
    workload = compress(table)
    check_tree(workload)
    tokens = [
        tokens_of([(i, block_tokens) for i in ids[:-1]] + [(ids[-1], last)])
        for ids, last in prompts
    ]
    for i, j in combinations(range(len(prompts)), 2):
        expected = num_equal(tokens[i], tokens[j])
        assert shared_length(workload, workload.path(i), workload.path(j)) == expected


@settings(max_examples=100, deadline=None)
@given(st.lists(runs_of_a_prompt, min_size=1, max_size=8))
def test_every_node_is_used_by_two_requests(prompts: list[list[Run]]) -> None:
    workload = compress(run_table(prompts, [1] * len(prompts), [None] * len(prompts)))
    uses = np.bincount(workload.path_nodes, minlength=workload.tree.num_nodes)
    assert (uses >= 2).all()
    assert (workload.shared_tokens() < workload.prompt_tokens).all()


@settings(max_examples=100, deadline=None)
@given(st.lists(runs_of_a_prompt, min_size=1, max_size=8), st.sampled_from([1, 4, 1 << 18]))
def test_keys_that_follow_different_keys_are_not_taken_for_chained(
    prompts: list[list[Run]], chunk_keys: int
) -> None:
    runs = keyed_runs(run_table(prompts, [1] * len(prompts), [None] * len(prompts)))
    above: dict[int, set[int]] = {}
    for start, end in zip(runs.offsets[:-1].tolist(), runs.offsets[1:].tolist(), strict=True):
        keys = runs.keys[start:end].tolist()
        for key, before in zip(keys, [-1, *keys], strict=False):
            above.setdefault(key, set()).add(before)
    is_chained = bool(above) and all(len(before) == 1 for before in above.values())
    with patch.object(chained_keys, "_CHUNK_KEYS", chunk_keys):
        assert (shared_nodes.by_chain(runs) is not None) == is_chained
