"""A decode batch as the attention kernels meet it: what its requests share, and how long they are.

Sharing enters as a histogram of (members, tokens): how many tokens of KV are read by how many of
the requests. Traffic and times need no more of the tree than that.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hwmodels.strict_json import shown
from sim.errors import ConfigError
from sim.interfaces import DecodeBatchView, FloatArray

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PrefixBatch:
    """Requests of one decode step and their prefix tree, lengths in tokens.

    In step k of a run every request holds k tokens more, all of them its own.

    Attributes:
        batch_size: requests, B.
        members: requests that read the tokens of an entry, 1 to B. Shape (entries,).
        tokens: tokens of an entry; entries may repeat a count of members. Shape (entries,).
        context_tokens_max: longest context.
        sum_squares: sum of the squared contexts, tokens^2.
        num_partials: pairs of a request and a node that it reads, over the requests that read more
            than one node. A kernel that reads each node once merges so many partial results.
    """

    batch_size: int
    members: FloatArray
    tokens: FloatArray
    context_tokens_max: int
    sum_squares: int
    num_partials: int

    @property
    def context_tokens_sum(self) -> float:
        """Sum of all contexts, tokens; whole."""
        return float(self.members @ self.tokens)

    @property
    def unique_tokens(self) -> float:
        """Distinct tokens, shared ones counted once; whole."""
        return float(self.tokens.sum())

    @property
    def common_tokens(self) -> int:
        """Leading tokens that all requests share; 0 for a single request."""
        if self.batch_size < 2:
            return 0
        return int(self.tokens[self.members == self.batch_size].sum())

    def without_common(self, num_tokens: int) -> "PrefixBatch":
        """The same batch less the first `num_tokens` tokens, which all requests share.

        Raises:
            ConfigError: more tokens than are common.
        """
        if not 0 <= num_tokens <= self.common_tokens:
            allowed = f"from 0 to the {self.common_tokens} common ones"
            raise ConfigError(f"num_tokens must be {allowed}, found {num_tokens}")
        if not num_tokens:
            return self
        tokens = self.tokens.copy()
        common = self.members == self.batch_size
        tokens[common] = 0.0
        tokens[np.argmax(common)] = self.common_tokens - num_tokens
        total = int(self.context_tokens_sum)
        squares = self.sum_squares + num_tokens * (self.batch_size * num_tokens - 2 * total)
        return PrefixBatch(
            batch_size=self.batch_size,
            members=self.members,
            tokens=tokens,
            context_tokens_max=self.context_tokens_max - num_tokens,
            sum_squares=squares,
            num_partials=self.num_partials,
        )

    @classmethod
    def from_levels(
        cls, nodes_per_level: Sequence[int], tokens_per_level: Sequence[int]
    ) -> "PrefixBatch":
        """Regular tree: every node of the last level is one request, spread evenly over the others.

        Args:
            nodes_per_level: nodes of each level from the roots down, never fewer than above.
            tokens_per_level: tokens of each node of the level.

        Raises:
            ConfigError: no level, lists of unequal length, or a number out of range.
        """
        nodes = _whole("nodes_per_level", nodes_per_level)
        tokens = _whole("tokens_per_level", tokens_per_level)
        if len(nodes) != len(tokens):
            raise ConfigError(
                f"nodes_per_level and tokens_per_level must be equally long, "
                f"found {len(nodes)} and {len(tokens)}"
            )
        if (np.diff(nodes) < 0).any():
            found = shown(nodes.tolist())
            raise ConfigError(f"nodes_per_level must not fall from a level to the next: {found}")
        batch_size, context = int(nodes[-1]), int(tokens.sum())
        fewer, larger_nodes = batch_size // nodes, batch_size % nodes
        counts = np.concatenate([fewer, fewer + 1])
        nodes_of_count = np.concatenate([nodes - larger_nodes, larger_nodes])
        return cls(
            batch_size=batch_size,
            members=counts.astype(np.float64),
            tokens=(nodes_of_count * np.tile(tokens, 2)).astype(np.float64),
            context_tokens_max=context,
            sum_squares=batch_size * context * context,
            num_partials=batch_size * len(nodes) if len(nodes) > 1 else 0,
        )

    @classmethod
    def from_tree(
        cls, parents: Sequence[int], node_tokens: Sequence[int], members: Sequence[int]
    ) -> "PrefixBatch":
        """Any forest, given node by node; a request ends at each node for every member more than
        its children have together.

        Args:
            parents: parent of each node, -1 for a root; parents come before children.
            node_tokens: tokens of each node, >= 1.
            members: requests that read each node, >= 1.

        Raises:
            ConfigError: lists of unequal length, a parent that does not precede its child, a number
                out of range, or children with more members than their parent.
        """
        tokens, counts = _whole("node_tokens", node_tokens), _whole("members", members)
        if not len(parents) == len(tokens) == len(counts):
            raise ConfigError(
                f"parents, node_tokens and members must be equally long, "
                f"found {len(parents)}, {len(tokens)} and {len(counts)}"
            )
        ending, ends_at, depth = counts.copy(), tokens.copy(), np.ones_like(counts)
        batch_size = 0
        for node, above in enumerate(parents):
            if not -1 <= above < node:
                raise ConfigError(f"node {node}: parent {above} does not precede it")
            if above < 0:
                batch_size += int(counts[node])
                continue
            ending[above] -= counts[node]
            ends_at[node] += ends_at[above]
            depth[node] += depth[above]
        if ending.min() < 0:
            node = int(np.argmin(ending))
            raise ConfigError(
                f"node {node}: its children have more members than it ({members[node]})"
            )
        return cls(
            batch_size=batch_size,
            members=counts.astype(np.float64),
            tokens=tokens.astype(np.float64),
            context_tokens_max=int(ends_at[ending > 0].max()),
            sum_squares=int(ending @ (ends_at * ends_at)),
            num_partials=int((ending * depth)[depth > 1].sum()),
        )

    @classmethod
    def from_view(cls, batch: DecodeBatchView) -> "PrefixBatch":
        """The decoding requests of an instance; without a tree, or outside it, nothing is shared.

        Args:
            batch: at least one request.
        """
        total, num_requests = batch.context_tokens, batch.num_requests
        counts: dict[int, int] = {}
        num_pairs = 0
        if batch.tree is not None:
            for node, count in batch.tree.member_counts.items():
                tokens = batch.tree.node_tokens(node)
                counts[count] = counts.get(count, 0) + tokens
                num_pairs += count
                total -= count * tokens
        counts[1] = total
        return cls(
            batch_size=num_requests,
            members=np.array(list(counts), dtype=np.float64),
            tokens=np.array(list(counts.values()), dtype=np.float64),
            context_tokens_max=batch.max_context_tokens,
            sum_squares=batch.context_tokens_squared,
            num_partials=num_pairs + num_requests if num_pairs else 0,
        )


def _whole(name: str, values: Sequence[int]) -> IntArray:
    """`values` as whole numbers of at least 1.

    Raises:
        ConfigError: none is given, or one is no such number.
    """
    array = np.asarray(values)
    if array.ndim != 1 or not len(array):
        raise ConfigError(f"{name} must be a list of at least one number, found {shown(values)}")
    if array.dtype.kind not in "iu" or array.min() < 1:
        raise ConfigError(f"{name} must be whole numbers of at least 1, found {shown(values)}")
    return array.astype(np.int64)
