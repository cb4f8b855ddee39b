"""Attention that reads a shared prefix once: cascade and packed."""

import numpy as np

from hwmodels.microbench.attention_cases import CascadeCase, PackedCase
from hwmodels.microbench.case import HEAD_DIM
from hwmodels.microbench.kernels.decode_attention import (
    MAX_ROWS,
    Nodes,
    decode_attention,
)
from hwmodels.microbench.kernels.merge import merge
from hwmodels.microbench.kernels.varlen_attention import varlen_attention
from hwmodels.microbench.problems.decode import own_nodes, partials_for
from hwmodels.microbench.problems.paging import (
    Seen,
    attention_error,
    page_table,
    scattered,
    token_counts,
)
from hwmodels.microbench.problems.prefill import sequences_of
from hwmodels.microbench.problems.problem import Problem
from hwmodels.microbench.problems.workspace import Workspace

_BLOCKS_PER_SM = 2
"""Thread blocks that the pass over packed prefixes aims at, per processor."""
_MAX_SPLITS = 16
_MIN_SPLIT_TOKENS = 256


class _TreeProblem(Problem):
    """Prefixes, suffixes, and a merge."""

    def __init__(
        self, workspace: Workspace, case: CascadeCase | PackedCase, num_prefix_slots: int
    ) -> None:
        self._rng = workspace.rng_of(case)
        self._groups = case.groups if isinstance(case, PackedCase) else 1
        lengths = [case.prefix_tokens] * self._groups + [case.suffix_tokens] * case.batch
        runs = scattered(lengths, self._rng)
        self._prefixes, self._suffixes = runs[: self._groups], runs[self._groups :]
        num_pages = sum(run.pages.size for run in runs)
        self._keys, self._values = workspace.keys_and_values(num_pages, case.num_kv_heads)
        self._query = workspace.normal(case.batch, case.num_heads, HEAD_DIM, seed=5)
        self._result = workspace.empty(*self._query.shape)
        self._num_prefix_slots = num_prefix_slots
        self._partials = partials_for(workspace, case, num_prefix_slots + 1)
        self._suffix_nodes = own_nodes(workspace, self._suffixes)

    def run(self) -> None:
        """The prefixes, the suffixes, the merge."""
        self._run_prefixes()
        decode_attention(
            self._query,
            self._keys,
            self._values,
            self._suffix_nodes,
            self._partials,
            first_slot=self._num_prefix_slots,
        )
        merge(self._partials, self._result)

    def _run_prefixes(self) -> None:
        raise NotImplementedError

    def max_error(self) -> float:
        """Error of some requests."""
        self._result.fill_(float("nan"))
        self.run()
        members = len(self._suffixes) // self._groups
        seen = [
            Seen(request, (self._prefixes[request // members], suffix))
            for request, suffix in enumerate(self._suffixes)
        ]
        return attention_error(self._query, self._keys, self._values, self._result, seen, self._rng)


class CascadeProblem(_TreeProblem):
    """The prefix as one sequence with all queries, heads not packed, not split."""

    def __init__(self, workspace: Workspace, case: CascadeCase) -> None:
        super().__init__(workspace, case, 1)
        self._sequences = sequences_of(workspace, self._prefixes, [case.batch])

    def _run_prefixes(self) -> None:
        varlen_attention(
            self._query,
            self._keys,
            self._values,
            self._sequences,
            self._partials,
            is_causal=False,
        )


class PackedProblem(_TreeProblem):
    """Prefixes as nodes whose members' query heads are packed, split to fill the processors."""

    def __init__(self, workspace: Workspace, case: PackedCase) -> None:
        self._num_splits = packed_splits(case, workspace.num_sms)
        super().__init__(workspace, case, self._num_splits)
        self._prefix_nodes = Nodes(
            pages=page_table(self._prefixes, workspace),
            num_tokens=token_counts(self._prefixes, workspace),
            members=workspace.integers(np.arange(case.batch).reshape(case.groups, case.members)),
        )

    def _run_prefixes(self) -> None:
        decode_attention(
            self._query,
            self._keys,
            self._values,
            self._prefix_nodes,
            self._partials,
            num_splits=self._num_splits,
        )


def packed_splits(case: PackedCase, num_sms: int) -> int:
    """Parts of a prefix: two thread blocks per processor, 256 tokens to a part, at most 16."""
    tiles = -(-case.members * case.queries_per_kv // MAX_ROWS)
    wanted = -(-_BLOCKS_PER_SM * num_sms // (case.num_kv_heads * case.groups * tiles))
    return max(1, min(wanted, _MAX_SPLITS, case.prefix_tokens // _MIN_SPLIT_TOKENS))
