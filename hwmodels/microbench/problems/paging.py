"""Pages of keys and values, scattered over the pool as in an engine that has run for a while."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from hwmodels.microbench.case import PAGE_TOKENS
from hwmodels.microbench.problems.workspace import Workspace
from hwmodels.microbench.reference import attention, relative_error

IntArray = NDArray[np.int64]

_CHECKED_QUERIES = 6
"""Query tokens that are compared with the reference at each size."""
_CHECKED_TOKENS = 65536
"""Tokens that they may see together; at least one query is checked."""


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive tokens in pages of their own.

    Attributes:
        pages: numbers of the pages, in order.
        num_tokens: tokens; the last page may be partly empty.
    """

    pages: IntArray
    num_tokens: int

    def first(self, num_tokens: int) -> "Run":
        """Its first tokens."""
        return Run(self.pages[: num_pages(num_tokens)], num_tokens)


def num_pages(num_tokens: int) -> int:
    """Pages of a run of tokens."""
    return -(-num_tokens // PAGE_TOKENS)


def scattered(lengths: Sequence[int], rng: np.random.Generator) -> list[Run]:
    """Runs of these lengths, tokens, in pages at random places of a pool that they fill."""
    counts = [num_pages(length) for length in lengths]
    order = rng.permutation(sum(counts))
    ends = np.cumsum(counts)
    return [
        Run(order[end - count : end], length)
        for end, count, length in zip(ends, counts, lengths, strict=True)
    ]


def page_table(runs: Sequence[Run], workspace: Workspace) -> torch.Tensor:
    """Pages of each run, int32, shape (runs, most pages of one)."""
    table = np.zeros((len(runs), max(run.pages.size for run in runs)), dtype=np.int64)
    for row, run in enumerate(runs):
        table[row, : run.pages.size] = run.pages
    return workspace.integers(table)


def token_counts(runs: Sequence[Run], workspace: Workspace) -> torch.Tensor:
    """Tokens of each run, int32, shape (runs,)."""
    return workspace.integers(np.array([run.num_tokens for run in runs]))


@dataclass(frozen=True, slots=True)
class Seen:
    """What one query token sees.

    Attributes:
        query: its row in the queries.
        runs: runs of tokens, one after the other.
    """

    query: int
    runs: tuple[Run, ...]

    @property
    def num_tokens(self) -> int:
        """Tokens that it sees."""
        return sum(run.num_tokens for run in self.runs)


def attention_error(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    result: torch.Tensor,
    seen: Sequence[Seen],
    rng: np.random.Generator,
) -> float:
    """Largest relative error of some query tokens, in the groups of the first and last KV head.

    Args:
        query: shape (queries, heads, head width).
        keys: shape (pages, page tokens, KV heads, head width).
        values: as `keys`.
        result: to be checked, shape of `query`.
        seen: queries that may be checked; the first and the last are among those checked.
        rng: picks the others.
    """
    num_kv_heads = keys.shape[2]
    group = query.shape[1] // num_kv_heads
    order = [0, len(seen) - 1, *rng.permutation(len(seen)).tolist()]
    largest = 0.0
    checked_tokens = 0
    for index in list(dict.fromkeys(order))[:_CHECKED_QUERIES]:
        item = seen[index]
        if checked_tokens and checked_tokens + item.num_tokens > _CHECKED_TOKENS:
            continue
        checked_tokens += item.num_tokens
        for kv_head in {0, num_kv_heads - 1}:
            heads = slice(kv_head * group, (kv_head + 1) * group)
            expected = attention(
                _float64(query[item.query, heads]),
                _gathered(keys, item.runs, kv_head),
                _gathered(values, item.runs, kv_head),
            )
            found = _float64(result[item.query, heads])
            largest = max(largest, relative_error(found, expected))
    return largest


def _gathered(pool: torch.Tensor, runs: Sequence[Run], kv_head: int) -> NDArray[np.float64]:
    """Tokens of some runs for one KV head, shape (tokens, 1, head width)."""
    parts = []
    for run in runs:
        pages = torch.from_numpy(run.pages).to(pool.device)
        tokens = pool[pages, :, kv_head : kv_head + 1]
        parts.append(_float64(tokens.reshape(-1, 1, pool.shape[3])[: run.num_tokens]))
    return np.concatenate(parts)


def _float64(tensor: torch.Tensor) -> NDArray[np.float64]:
    numbers: NDArray[np.float64] = tensor.to(torch.float32).cpu().numpy().astype(np.float64)
    return numbers
