"""Decode attention of requests whose contexts are their own, or share prefixes unknown to it."""

from collections.abc import Sequence

import numpy as np
import torch

from hwmodels.microbench.attention_cases import (
    AttentionCase,
    DecodeAttentionCase,
    SharedPrefixCase,
)
from hwmodels.microbench.case import HEAD_DIM
from hwmodels.microbench.kernels.decode_attention import Nodes, Partials, decode_attention
from hwmodels.microbench.kernels.merge import merge
from hwmodels.microbench.problems.paging import (
    IntArray,
    Run,
    Seen,
    attention_error,
    page_table,
    scattered,
    token_counts,
)
from hwmodels.microbench.problems.problem import Problem
from hwmodels.microbench.problems.workspace import Workspace


class DecodeProblem(Problem):
    """Every request reads its whole context."""

    def __init__(self, workspace: Workspace, case: DecodeAttentionCase | SharedPrefixCase) -> None:
        self._rng = workspace.rng_of(case)
        if isinstance(case, SharedPrefixCase):
            contexts = _shared_contexts(case, self._rng)
            self._num_splits = 1
            self.is_cold = case.cache == "cold"
        else:
            contexts = scattered(case.contexts, self._rng)
            self._num_splits = case.splits
        self._contexts = contexts
        largest_page = max(int(run.pages.max()) for run in contexts)
        self._keys, self._values = workspace.keys_and_values(largest_page + 1, case.num_kv_heads)
        self._query = workspace.normal(case.batch, case.num_heads, HEAD_DIM, seed=5)
        self._result = workspace.empty(*self._query.shape)
        self._nodes = own_nodes(workspace, contexts)
        self._partials = (
            partials_for(workspace, case, self._num_splits) if self._num_splits > 1 else None
        )

    def run(self) -> None:
        """The attention, and the merge where contexts are split."""
        query, keys, values = self._query, self._keys, self._values
        if self._partials is None:
            decode_attention(query, keys, values, self._nodes, self._result)
        else:
            decode_attention(
                query, keys, values, self._nodes, self._partials, num_splits=self._num_splits
            )
            merge(self._partials, self._result)

    def max_error(self) -> float:
        """Error of some requests."""
        self._result.fill_(float("nan"))
        self.run()
        seen = [Seen(request, (run,)) for request, run in enumerate(self._contexts)]
        return attention_error(self._query, self._keys, self._values, self._result, seen, self._rng)


def own_nodes(workspace: Workspace, contexts: Sequence[Run]) -> Nodes:
    """One node for each request, in the order of the queries."""
    return Nodes(
        pages=page_table(contexts, workspace),
        num_tokens=token_counts(contexts, workspace),
        members=workspace.integers(np.arange(len(contexts)).reshape(-1, 1)),
    )


def partials_for(workspace: Workspace, case: AttentionCase, num_slots: int) -> Partials:
    """Room for partial results of every query."""
    shape = (num_slots, case.num_queries, case.num_heads)
    return Partials(
        values=workspace.empty(*shape, HEAD_DIM, dtype=torch.float32),
        log_sums=workspace.empty(*shape, dtype=torch.float32),
    )


def _shared_contexts(case: SharedPrefixCase, rng: np.random.Generator) -> list[Run]:
    """Context of each request: the whole pages of its group's prefix, then its own suffix."""
    lengths = [case.prefix_tokens] * case.groups + [case.suffix_tokens] * case.batch
    runs = scattered(lengths, rng)
    prefixes, suffixes = runs[: case.groups], runs[case.groups :]
    num_tokens = case.prefix_tokens + case.suffix_tokens
    contexts = []
    for group, suffix in zip(case.group_of_request, suffixes, strict=True):
        pages: IntArray = np.concatenate([prefixes[group].pages, suffix.pages])
        contexts.append(Run(pages, num_tokens))
    return contexts
