"""Quoted outputs against conversations whose tokens are known, compared token by token."""

from dataclasses import dataclass
from itertools import pairwise
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.prefix_tree import NO_NODE
from sim.workload import Workload
from traces import prefix_hashes
from traces.output_blocks import with_reused_outputs
from traces.prefix_compress import compress
from traces.schema import PromptRuns, TraceTable

BLOCK = 4

Tokens = tuple[object, ...]


@dataclass(frozen=True)
class Call:
    """A call whose tokens are known; `parent` is what the trace says."""

    prompt: Tokens
    output: Tokens
    parent: int


def message(name: str, length: int) -> Tokens:
    return tuple((name, k) for k in range(length))


@st.composite
def conversations(draw: st.DrawFn) -> list[Call]:
    """Turns that quote what they follow; links may be missing, answers may be given twice."""
    calls: list[Call] = []
    number: dict[Tokens, int] = {}
    for index in range(draw(st.integers(1, 9))):
        parent = draw(st.integers(-1, index - 1))
        said = message(draw(st.sampled_from(["a", "b", "c"])), draw(st.integers(1, 11)))
        history: Tokens = ()
        if parent >= 0:
            history = calls[parent].prompt + calls[parent].output
        prompt = history + said
        # The same prompt gets one of two answers, of a length that goes with it.
        choice = draw(st.integers(0, 1))
        name = f"answer {choice} to {number.setdefault(prompt, len(number))}"
        output = message(name, 1 + 5 * choice + len(prompt) % 5)
        is_linked = draw(st.integers(0, 3)) > 0
        calls.append(Call(prompt, output, parent if is_linked else -1))
    return calls


def table_of(calls: list[Call]) -> TraceTable:
    """Ids name the content of single blocks, as hashes do that are not chained."""
    number: dict[Tokens, int] = {}
    rows = [
        [
            number.setdefault(call.prompt[k : k + BLOCK], len(number))
            for k in range(0, len(call.prompt), BLOCK)
        ]
        for call in calls
    ]
    return TraceTable(
        arrival_s=np.arange(len(calls), dtype=np.float64),
        prompt_tokens=np.array([len(call.prompt) for call in calls]),
        output_tokens=np.array([len(call.output) for call in calls]),
        runs=PromptRuns(
            ids=np.array([i for row in rows for i in row], dtype=np.int32),
            offsets=np.cumsum([0, *map(len, rows)]),
            block_tokens=BLOCK,
        ),
    )


def workload_of(calls: list[Call]) -> Workload:
    parent = np.array([call.parent for call in calls])
    workload = compress(with_reused_outputs(table_of(calls), parent))
    workload.validate()
    return workload


def kv_path(workload: Workload, row: int) -> tuple[int, ...]:
    output = NO_NODE if workload.output_node is None else int(workload.output_node[row])
    return workload.path(row) if output == NO_NODE else (*workload.path(row), output)


def shared_blocks(workload: Workload, cached: int, asked: int) -> int:
    """Full blocks of the prompt of `asked` among what `cached` leaves behind."""
    pairs = zip(kv_path(workload, cached), workload.path(asked), strict=False)
    common = [left for left, right in pairs if left == right]
    return int(workload.tree.num_tokens[common].sum()) // BLOCK if common else 0


def equal_blocks(left: Tokens, right: Tokens) -> int:
    equal = [a == b for a, b in zip(left, right, strict=False)]
    return (equal.index(False) if False in equal else len(equal)) // BLOCK


@settings(max_examples=200, deadline=None)
@given(conversations(), st.sampled_from([1, 5, 1 << 20]), st.sampled_from([1, 20]))
def test_a_cache_of_whole_blocks_finds_what_the_tokens_say(
    calls: list[Call], chunk_ids: int, filter_bits: int
) -> None:
    with patch.multiple(prefix_hashes, _CHUNK_IDS=chunk_ids, _FILTER_BITS=filter_bits):
        workload = workload_of(calls)
    parents = {call.parent for call in calls}
    for cached, one in enumerate(calls):
        content = one.prompt + (one.output if cached in parents else ())
        for asked, other in enumerate(calls):
            if asked == cached:
                continue
            expected = equal_blocks(content, other.prompt)
            found = shared_blocks(workload, cached, asked)
            assert found == expected, (cached, asked)


@settings(max_examples=60, deadline=None)
@given(conversations())
def test_lengths_stay_and_nothing_is_lost(calls: list[Call]) -> None:
    before = table_of(calls)
    after = with_reused_outputs(before, np.array([call.parent for call in calls]))
    assert after.runs is not None
    assert before.runs is not None
    if after.runs.tokens is None:
        assert after is before
        return
    assert (after.runs.tokens >= 1).all()
    total = np.append(0, np.cumsum(after.runs.tokens))[after.runs.offsets]
    assert np.diff(total).tolist() == before.prompt_tokens.tolist()
    assert all(first < end for first, end in pairwise(after.runs.offsets.tolist()))
