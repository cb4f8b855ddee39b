"""Prompts spelled out token by token: what they share, found without trees or runs' arithmetic."""

from collections.abc import Sequence
from itertools import takewhile

import numpy as np
from hypothesis import strategies as st

from sim.workload import Labels, Workload
from traces.schema import IdArray, PromptRuns, TraceTable

Token = tuple[object, ...]


def runs_of(table: TraceTable, row: int) -> list[tuple[int, int]]:
    """(id, tokens) of a prompt's runs."""
    runs = table.runs
    assert runs is not None
    first, last = int(runs.offsets[row]), int(runs.offsets[row + 1])
    ids = [int(value) for value in runs.ids[first:last]]
    if runs.tokens is not None:
        return list(zip(ids, runs.tokens[first:last].tolist(), strict=True))
    assert runs.block_tokens is not None
    left = int(table.prompt_tokens[row])
    pairs = []
    for run_id in ids:
        pairs.append((run_id, min(left, runs.block_tokens)))
        left -= runs.block_tokens
    return pairs


def cached_runs(table: TraceTable, row: int) -> list[tuple[int, int]]:
    """Runs of a prompt and of the output that follows it."""
    pairs = runs_of(table, row)
    if table.output_run is not None and table.output_run[row] >= 0:
        pairs.append((int(table.output_run[row]), int(table.output_tokens[row])))
    return pairs


def common(left: Sequence[object], right: Sequence[object]) -> int:
    """Length of the common beginning."""
    pairs = zip(left, right, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def shared_runs(table: TraceTable) -> list[list[int]]:
    """[j][i]: runs with which prompt j begins that request i < j leaves in the cache."""
    n = table.num_requests
    return [[common(runs_of(table, j), cached_runs(table, i)) for i in range(j)] for j in range(n)]


def shared_prompt_tokens(table: TraceTable) -> list[list[int]]:
    """[j][i]: tokens with which prompts i and j begin alike."""
    n = table.num_requests
    shared = []
    for j in range(n):
        own = runs_of(table, j)
        counts = [common(own, runs_of(table, i)) for i in range(j)]
        shared.append([sum(tokens for _, tokens in own[:count]) for count in counts])
    return shared


def matched_tokens(table: TraceTable) -> list[int]:
    """Tokens that an infinite cache finds for each request."""
    matched = []
    for j in range(table.num_requests):
        own = runs_of(table, j)
        most = max((common(own, cached_runs(table, i)) for i in range(j)), default=0)
        matched.append(sum(tokens for _, tokens in own[:most]))
    return matched


def same_workload(left: Workload, right: Workload, *, but: Sequence[str] = ()) -> None:
    """Every column equal, but for those named."""
    for name in Workload.__dataclass_fields__:
        if name in but:
            continue
        one, other = getattr(left, name), getattr(right, name)
        if name == "tree":
            for part in ("parent", "start_tokens", "num_tokens"):
                assert getattr(one, part).tolist() == getattr(other, part).tolist(), part
        elif isinstance(one, np.ndarray):
            assert one.tolist() == other.tolist(), name
        elif isinstance(one, Labels):
            assert one.codes.tolist() == other.codes.tolist(), name
        else:
            assert one == other, name


@st.composite
def block_tables(draw: st.DrawFn) -> TraceTable:
    """Prompts of hash blocks, with equal ids as full and as partial blocks."""
    block_tokens = draw(st.sampled_from([1, 4, 16]))
    n = draw(st.integers(1, 8))
    prompts = draw(st.lists(st.integers(1, 5 * block_tokens), min_size=n, max_size=n))
    counts = [-(-prompt // block_tokens) for prompt in prompts]
    big = draw(st.sampled_from([0, 10**9, 2**40]))
    drawn = np.array([big + draw(st.integers(0, 2)) for _ in range(sum(counts))], dtype=np.int64)
    ids: IdArray = drawn.astype(np.int32) if big < 2**31 else drawn
    return TraceTable(
        arrival_s=np.sort(draw(times(n))),
        prompt_tokens=np.array(prompts, dtype=np.int64),
        output_tokens=np.array(draw(st.lists(st.integers(1, 9), min_size=n, max_size=n))),
        runs=PromptRuns(
            ids=ids,
            offsets=np.append(0, np.cumsum(counts)),
            block_tokens=block_tokens,
        ),
        tenant=Labels(np.array(draw(st.lists(st.integers(-1, 2), min_size=n, max_size=n))), TRIO),
        provenance={"format": "x"},
    )


TRIO = ("a", "b", "c")


def times(n: int) -> st.SearchStrategy[np.ndarray]:
    """Times of n arrivals, with equal ones among them."""
    several = st.lists(st.sampled_from([0.0, 0.5, 1.25, 3.0, 7.5]), min_size=n, max_size=n)
    return several.map(lambda values: np.array(values, dtype=np.float64))


@st.composite
def session_tables(draw: st.DrawFn) -> TraceTable:
    """Conversations whose prompts grow by output and message, some under one system prompt."""
    rows: list[dict[str, object]] = []
    for session in range(draw(st.integers(1, 4))):
        has_system = draw(st.booleans())
        runs = [(0, 7)] if has_system else []
        at_s, parent = draw(st.sampled_from([0.0, 1.0, 2.5])), -1
        num_turns = draw(st.integers(1, 3))
        for turn in range(num_turns):
            run_id = 1 + 2 * (10 * session + turn)
            runs = [*runs, (run_id, draw(st.integers(1, 20)))]
            output = draw(st.integers(1, 20))
            is_last = turn == num_turns - 1
            rows.append(
                {
                    "at_s": at_s,
                    "runs": runs,
                    "output": output,
                    "output_run": -1 if is_last else run_id + 1,
                    "session": session,
                    "turn": turn,
                    "parent": parent,
                }
            )
            parent = len(rows) - 1
            runs = [*runs, (run_id + 1, output)]
            at_s += draw(st.sampled_from([0.25, 1.0, 4.0]))
    return _table(rows, draw(st.booleans()))


def _table(rows: list[dict[str, object]], is_closed: bool) -> TraceTable:
    def column(name: str) -> np.ndarray:
        return np.array([row[name] for row in rows], dtype=np.int64)

    all_runs = [row["runs"] for row in rows]
    pairs = [pair for runs in all_runs for pair in runs]  # type: ignore[attr-defined]
    counts = [len(runs) for runs in all_runs]  # type: ignore[arg-type]
    prompts = [sum(tokens for _, tokens in runs) for runs in all_runs]  # type: ignore[attr-defined]
    table = TraceTable(
        arrival_s=np.array([row["at_s"] for row in rows], dtype=np.float64),
        prompt_tokens=np.array(prompts, dtype=np.int64),
        output_tokens=column("output"),
        runs=PromptRuns(
            ids=np.array([run_id for run_id, _ in pairs], dtype=np.int64),
            offsets=np.append(0, np.cumsum(counts)),
            tokens=np.array([tokens for _, tokens in pairs], dtype=np.int64),
        ),
        output_run=column("output_run"),
        session_id=column("session"),
        turn=column("turn"),
        parent_id=column("parent"),
        after=column("parent") if is_closed else None,
        delay_s=np.full(len(rows), 0.5) if is_closed else None,
        provenance={"format": "x"},
    )
    return table.take(np.argsort(table.arrival_s, kind="stable"))


tables = st.one_of(block_tables(), session_tables())
