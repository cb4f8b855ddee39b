"""How deep prompts share, and which shared beginnings matter most."""

from dataclasses import dataclass

import numpy as np

from sim.workload import IntArray, Workload


@dataclass(frozen=True, slots=True)
class SharingDepth:
    """What each request shares with any other one, earlier or later.

    Attributes:
        shared_tokens: tokens of the prompt in shared nodes. Shape (n,).
        num_nodes: shared nodes on its path. Shape (n,).
    """

    shared_tokens: IntArray
    num_nodes: IntArray

    @staticmethod
    def of(workload: Workload) -> "SharingDepth":
        """Depths of a workload."""
        return SharingDepth(workload.shared_tokens(), np.diff(workload.path_offsets))


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """A node of the prefix tree.

    Attributes:
        start_tokens: tokens before it along its path.
        num_tokens: its own tokens.
        num_requests: prompts that hold it.
        first_request: the first of them.
        saved_tokens: its tokens times all of them but the first: what a cache saves at most.
    """

    start_tokens: int
    num_tokens: int
    num_requests: int
    first_request: int
    saved_tokens: int


def top_prefixes(workload: Workload, num_prefixes: int = 10) -> list[SharedPrefix]:
    """The nodes that could save the most tokens, largest first."""
    tree = workload.tree
    uses = np.bincount(workload.path_nodes, minlength=tree.num_nodes)
    saved = tree.num_tokens * np.maximum(uses - 1, 0)
    first = np.full(tree.num_nodes, -1, dtype=np.int64)
    row = np.repeat(np.arange(workload.num_requests), np.diff(workload.path_offsets))
    first[workload.path_nodes[::-1]] = row[::-1]  # of equal nodes the last written stays
    order = np.argsort(-saved, kind="stable")[:num_prefixes]
    columns = (tree.start_tokens, tree.num_tokens, uses, first, saved)
    rows = zip(*(column[order].tolist() for column in columns), strict=True)
    return [SharedPrefix(*values) for values in rows if values[-1] > 0]
