"""Runs of tokens as radix keys: equal keys mean equal id and equal token count.

A partial last block has another key than the full block of the same id.
"""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from sim.workload import IntArray
from traces.radix import Int32Array
from traces.schema import IdArray, PromptRuns, TraceTable

MAX_KEY = 2**31 - 1
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class KeyedRuns:
    """All sequences to insert: a request's prompt, then the output that a later turn reuses.

    Attributes:
        keys: key of every run.
        offsets: start of each request's slice of `keys`. Shape (n + 1,).
        prompt_end: end of the prompt's part of that slice. Shape (n,).
        run_bounds: tokens before every run over all sequences, and the total; None for blocks.
        block_tokens: tokens per run where all but the last of a prompt are equal, else None.
        prompt_tokens: prompt length of each request. Shape (n,).
    """

    keys: Int32Array
    offsets: IntArray
    prompt_end: IntArray
    run_bounds: IntArray | None
    block_tokens: int | None
    prompt_tokens: IntArray

    @property
    def has_output(self) -> npt.NDArray[np.bool_]:
        """Whether each request's slice ends with its output. Shape (n,)."""
        has_output: npt.NDArray[np.bool_] = self.offsets[1:] > self.prompt_end
        return has_output

    def row_of(self, index: IntArray) -> IntArray:
        """Request whose slice holds each run `index` (an index into `keys`)."""
        return np.searchsorted(self.offsets, index, side="right") - 1

    def tokens_before(self, row: IntArray, index: IntArray) -> IntArray:
        """Tokens of the row's sequence that precede run `index`, which may be its end."""
        start = self.offsets[row]
        before: IntArray
        if self.run_bounds is not None:
            before = self.run_bounds[index] - self.run_bounds[start]
        else:
            assert self.block_tokens is not None
            before = np.minimum((index - start) * self.block_tokens, self.prompt_tokens[row])
        return before


def keyed_runs(table: TraceTable) -> KeyedRuns:
    """Sequences of a table that has runs.

    Raises:
        ValueError: a reused output needs runs that cover the whole prompt.
    """
    runs = table.runs
    assert runs is not None
    if table.output_run is not None:
        return _with_outputs(table, runs, table.output_run)
    if runs.tokens is None:
        keys, bounds = _block_keys(runs, table.prompt_tokens), None
    else:
        keys, bounds = _pair_keys(runs.ids, runs.tokens), np.append(0, np.cumsum(runs.tokens))
    end = runs.offsets[1:]
    return KeyedRuns(keys, runs.offsets, end, bounds, runs.block_tokens, table.prompt_tokens)


def _with_outputs(table: TraceTable, runs: PromptRuns, output_run: IntArray) -> KeyedRuns:
    if runs.tokens is None:
        raise ValueError("reused outputs need runs with token counts, not blocks")
    is_reused = output_run >= 0
    total = np.append(0, np.cumsum(runs.tokens))[runs.offsets]
    is_short = is_reused & (np.diff(total) != table.prompt_tokens)
    if is_short.any():
        raise ValueError(f"request {int(np.argmax(is_short))}: runs must cover the whole prompt")
    where = runs.offsets[1:][is_reused]
    reused = output_run[is_reused]
    is_wide = len(reused) > 0 and int(reused.max()) > MAX_KEY
    ids = np.insert(runs.ids.astype(np.int64) if is_wide else runs.ids, where, reused)
    tokens = np.insert(runs.tokens, where, table.output_tokens[is_reused])
    offsets = runs.offsets + np.append(0, np.cumsum(is_reused))
    return KeyedRuns(
        keys=_pair_keys(cast(IdArray, ids), tokens),
        offsets=offsets,
        prompt_end=offsets[1:] - is_reused,
        run_bounds=np.append(0, np.cumsum(tokens)),
        block_tokens=None,
        prompt_tokens=table.prompt_tokens,
    )


def _pair_keys(ids: IdArray, tokens: IntArray) -> Int32Array:
    """Keys of (id, token count) pairs."""
    if not len(ids):
        return np.empty(0, dtype=np.int32)
    dense = _dense(ids)
    tokens_of_id = np.zeros(int(dense.max()) + 1, dtype=tokens.dtype)
    tokens_of_id[dense] = tokens
    other = np.flatnonzero(tokens_of_id[dense] != tokens)
    if not len(other):
        return dense
    # An id with several token counts keeps its key for one of them.
    pairs = dense[other].astype(np.int64) * (int(tokens.max()) + 1) + tokens[other]
    keys = dense.copy()
    keys[other] = len(tokens_of_id) + _ranks(pairs)
    return keys


def _block_keys(runs: PromptRuns, prompt_tokens: IntArray) -> Int32Array:
    """Keys of blocks: the id, unless an id is both a full and a partial block."""
    block_tokens = runs.block_tokens
    assert block_tokens is not None
    if not len(runs.ids):
        return np.empty(0, dtype=np.int32)
    ids = _dense(runs.ids)
    num_blocks = np.diff(runs.offsets)
    last_tokens = prompt_tokens - (num_blocks - 1) * block_tokens
    is_partial = (num_blocks > 0) & (last_tokens < block_tokens)
    last = (runs.offsets[1:] - 1)[is_partial]
    last_tokens = last_tokens[is_partial]
    if not len(last) or _has_one_length(ids, last, last_tokens):
        return ids
    keys = ids.copy()
    pair = ids[last].astype(np.int64) * block_tokens + last_tokens
    keys[last] = int(ids.max()) + 1 + _ranks(pair)
    return keys


def _has_one_length(ids: Int32Array, last: IntArray, last_tokens: IntArray) -> bool:
    """Whether every id that is a partial block somewhere has that same length everywhere."""
    partial_tokens = np.zeros(int(ids.max()) + 1, dtype=np.int32)
    partial_tokens[ids[last]] = last_tokens
    if (partial_tokens[ids[last]] != last_tokens).any():
        return False
    # In chunks: a trace of 16-token blocks has tens of millions of ids.
    seen = sum(
        np.count_nonzero(partial_tokens[ids[i : i + _CHUNK]]) for i in range(0, len(ids), _CHUNK)
    )
    return seen == len(last)


def _dense(ids: IdArray) -> Int32Array:
    """Ids as int32, renumbered where they are too large or too thinly spread for a table."""
    limit = min(MAX_KEY - len(ids), 4 * len(ids) + _CHUNK)
    if int(ids.max()) <= limit:
        small: npt.NDArray[np.int32] = ids.astype(np.int32, copy=False)
        return small
    return _ranks(ids)


def _ranks(values: npt.NDArray[np.integer[Any]]) -> Int32Array:
    """Position of each value among the distinct ones, in order."""
    ranks: Int32Array = np.unique(values, return_inverse=True)[1].astype(np.int32)
    return ranks
