"""Many decode steps as arrays, with the prefix trees that were noted for their runs."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from mypy_extensions import mypyc_attr

from hwmodels.attention.l2_reads import HIT_TOKENS
from hwmodels.kernels.l2_curve import L2Curve
from hwmodels.kernels.tree_traffic import MemberOrder, waves_with_node
from sim.interfaces import FloatArray

IntArray = npt.NDArray[np.int64]

_ROUNDING = 1e-9


@mypyc_attr(allow_interpreted_subclasses=True)
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NotedTrees:
    """Sharing of batches; tree 0 shares nothing. Shape (trees,) but for the entries.

    Attributes:
        once: tokens of the shared nodes, each counted once.
        path: the same, once for every member.
        num_pairs: pairs of a request and a shared node.
        common: leading tokens that all running requests share.
        first: first entry of each tree, and the end of the last one. Shape (trees + 1,).
        members: members of an entry's nodes. Shape (entries,).
        tokens: tokens of those nodes. Shape (entries,).
    """

    once: IntArray
    path: IntArray
    num_pairs: IntArray
    common: IntArray
    first: IntArray
    members: IntArray
    tokens: IntArray


@mypyc_attr(allow_interpreted_subclasses=True)
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DecodeSteps:
    """Decode steps; contexts as sums over the requests of a step. Shape (steps,) each.

    Attributes:
        batch_size: requests.
        context_tokens: sum of their contexts.
        squares: sum of the squared contexts.
        longest: longest context.
        cascaded: common tokens that are known to be read in a pass of their own, -1: not known.
        left_out: common tokens that were taken off every context. Shape (steps,); None: none.
        tree: which of `trees` the batch shares.
        trees: the noted trees.
    """

    batch_size: FloatArray
    context_tokens: FloatArray
    squares: FloatArray
    longest: FloatArray
    cascaded: IntArray
    tree: IntArray
    trees: NotedTrees
    left_out: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.batch_size)

    def without_common(self, common: FloatArray) -> "DecodeSteps":
        """The same steps without the first so many tokens of every context."""
        size, total = self.batch_size, self.context_tokens
        return DecodeSteps(
            batch_size=size,
            context_tokens=total - size * common,
            squares=self.squares + common * (size * common - 2.0 * total),
            longest=self.longest - common,
            cascaded=self.cascaded,
            tree=self.tree,
            trees=self.trees,
            left_out=common,
        )


def saved_tokens(
    steps: DecodeSteps,
    l2: L2Curve | None,
    *,
    token_bytes: float,
    requests_per_wave: FloatArray,
    drift_tokens: float,
    member_order: MemberOrder,
) -> FloatArray:
    """Context tokens that do not come from HBM in each step, not positive. Shape (steps,).

    Args:
        steps: the steps, without the common tokens.
        l2: hit curve; None: nothing hits.
        token_bytes: keys and values of a token in one layer.
        requests_per_wave: requests whose thread blocks run together. Shape (steps,).
        drift_tokens: tokens by which requests of a wave run apart.
        member_order: order in which requests take the processors.
    """
    found = np.zeros(len(steps))
    rows = np.flatnonzero(steps.tree)
    if l2 is None or not len(rows):
        return found
    trees, tree = steps.trees, steps.tree[rows]
    size, total = steps.batch_size[rows], steps.context_tokens[rows]
    left_out = np.zeros(len(rows)) if steps.left_out is None else steps.left_out[rows]
    together = np.maximum(requests_per_wave[rows], 1.0)
    waves = np.maximum(np.ceil(size / together - _ROUNDING), 1.0)
    once = trees.once[tree] - left_out
    path = trees.path[tree] - size * left_out
    spread = _spread_tokens(trees, tree, size, waves, together, member_order, left_out)
    per_block = HIT_TOKENS * size
    in_blocks = (np.floor(total / per_block) + 1.0) * per_block
    wave = (in_blocks - path + spread) / waves
    within = wave * np.minimum(drift_tokens * size / in_blocks, 1.0)
    missed_across = 1.0 - l2.hit_ratio(wave * token_bytes)
    missed_within = 1.0 - l2.hit_ratio(within * token_bytes)
    again = (spread - once) * missed_across + (path - spread) * missed_within
    found[rows] = once - path + again
    return found


def _spread_tokens(
    trees: NotedTrees,
    tree: IntArray,
    size: FloatArray,
    waves: FloatArray,
    together: FloatArray,
    member_order: MemberOrder,
    left_out: FloatArray,
) -> FloatArray:
    """Tokens of shared nodes, once for every wave that reads them. Shape (steps,)."""
    keys = np.stack([tree.astype(np.float64), size, together, left_out])
    changes = np.flatnonzero(np.any(keys[:, 1:] != keys[:, :-1], axis=0)) + 1
    starts = np.append(0, changes)  # steps of a run mostly have the same sums
    num_steps = np.diff(np.append(starts, len(tree)))
    tree, waves, together = tree[starts], waves[starts], together[starts]
    num_entries = trees.first[tree + 1] - trees.first[tree]
    piece = np.repeat(np.arange(len(starts)), num_entries)
    offset = np.arange(len(piece)) - np.repeat(np.cumsum(num_entries) - num_entries, num_entries)
    entry = trees.first[tree][piece] + offset
    in_waves = waves_with_node(trees.members[entry], waves[piece], together[piece], member_order)
    spread = np.bincount(piece, trees.tokens[entry] * in_waves, len(starts))
    common = waves_with_node(np.maximum(size[starts], 1.0), waves, together, member_order)
    return np.repeat(spread - left_out[starts] * common, num_steps)
