"""Prefill chunks over paged prefixes, alone and beside decodes."""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from hwmodels.microbench.attention_cases import AttentionCase, MixedCase, PrefillCase
from hwmodels.microbench.case import HEAD_DIM
from hwmodels.microbench.kernels.decode_attention import decode_attention
from hwmodels.microbench.kernels.varlen_attention import (
    Sequences,
    num_tile_rows,
    varlen_attention,
)
from hwmodels.microbench.problems.decode import own_nodes
from hwmodels.microbench.problems.paging import (
    Run,
    Seen,
    attention_error,
    page_table,
    scattered,
    token_counts,
)
from hwmodels.microbench.problems.problem import Problem
from hwmodels.microbench.problems.workspace import Workspace
from hwmodels.microbench.reference import sampled

_SAMPLED_QUERIES = 64


def sequences_of(
    workspace: Workspace, contexts: Sequence[Run], num_queries: Sequence[int]
) -> Sequences:
    """Sequences whose queries follow one another, cut into tiles.

    Args:
        workspace: where the tensors go.
        contexts: tokens of each sequence.
        num_queries: its queries.
    """
    tile_rows = num_tile_rows(max(num_queries))
    tiles = [
        (sequence, start)
        for sequence, count in enumerate(num_queries)
        for start in range(0, count, tile_rows)
    ]
    first_query = [0, *accumulate(num_queries)][:-1]
    return Sequences(
        pages=page_table(contexts, workspace),
        num_tokens=token_counts(contexts, workspace),
        first_query=workspace.integers(np.array(first_query)),
        num_queries=workspace.integers(np.array(num_queries)),
        tile_sequence=workspace.integers(np.array([sequence for sequence, _ in tiles])),
        tile_start=workspace.integers(np.array([start for _, start in tiles])),
        tile_rows=tile_rows,
    )


class _ChunkProblem(Problem):
    """Queries that are the last tokens of their sequences."""

    def __init__(
        self,
        workspace: Workspace,
        case: AttentionCase,
        lengths: Sequence[int],
        num_queries: Sequence[int],
    ) -> None:
        self._rng = workspace.rng_of(case)
        self._num_queries = num_queries
        self._contexts = scattered(lengths, self._rng)
        num_pages = sum(run.pages.size for run in self._contexts)
        self._keys, self._values = workspace.keys_and_values(num_pages, case.num_kv_heads)
        self._query = workspace.normal(case.num_queries, case.num_heads, HEAD_DIM, seed=5)
        self._result = workspace.empty(*self._query.shape)

    def max_error(self) -> float:
        """Error of some queries."""
        self._result.fill_(float("nan"))
        self.run()
        return attention_error(
            self._query, self._keys, self._values, self._result, self._seen(), self._rng
        )

    def _seen(self) -> list[Seen]:
        ends = list(accumulate(self._num_queries))
        seen = []
        for query in sampled(ends[-1], _SAMPLED_QUERIES, self._rng):
            sequence = int(np.searchsorted(ends, query, side="right"))
            context = self._contexts[sequence]
            visible = context.num_tokens - (ends[sequence] - 1 - query)
            seen.append(Seen(query, (context.first(visible),)))
        return seen


class PrefillProblem(_ChunkProblem):
    """One chunk per request."""

    def __init__(self, workspace: Workspace, case: PrefillCase) -> None:
        length = case.prefix_tokens + case.chunk_tokens
        queries = [case.chunk_tokens] * case.batch
        super().__init__(workspace, case, [length] * case.batch, queries)
        self._sequences = sequences_of(workspace, self._contexts, queries)

    def run(self) -> None:
        """One causal call."""
        varlen_attention(self._query, self._keys, self._values, self._sequences, self._result)


class MixedProblem(_ChunkProblem):
    """Decodes, then the chunk, in the order of the queries."""

    def __init__(self, workspace: Workspace, case: MixedCase) -> None:
        lengths = [case.context] * case.batch + [case.prefix_tokens + case.chunk_tokens]
        queries = [1] * case.batch + [case.chunk_tokens]
        super().__init__(workspace, case, lengths, queries)
        self._batch = case.batch
        self._is_fused = case.form == "fused"
        if self._is_fused:
            self._sequences = sequences_of(workspace, self._contexts, queries)
        else:
            self._sequences = sequences_of(workspace, self._contexts[-1:], queries[-1:])
            self._nodes = own_nodes(workspace, self._contexts[:-1])

    def run(self) -> None:
        """One call, or the chunk's and then the decodes'."""
        query, result, batch = self._query, self._result, self._batch
        if self._is_fused:
            varlen_attention(query, self._keys, self._values, self._sequences, result)
            return
        chunk, chunk_result = query[batch:], result[batch:]
        varlen_attention(chunk, self._keys, self._values, self._sequences, chunk_result)
        decodes, decode_result = query[:batch], result[:batch]
        decode_attention(decodes, self._keys, self._values, self._nodes, decode_result)
