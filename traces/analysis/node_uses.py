"""Which request uses which node of the prefix tree, and when it was used before."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.prefix_tree import NO_NODE
from sim.workload import IntArray, Workload


@dataclass(frozen=True, slots=True)
class NodeUses:
    """All uses in order of rows, within a row from the root down, a reused output last.

    Attributes:
        row: request of each use.
        node: node of each use.
        is_prompt: whether the node is in the prompt; otherwise the request generates it.
        row_before: request that used the node last before, -1 where none did.
    """

    row: IntArray
    node: IntArray
    is_prompt: npt.NDArray[np.bool_]
    row_before: IntArray

    @staticmethod
    def of(workload: Workload) -> "NodeUses":
        """Uses of a workload's nodes."""
        lengths = np.diff(workload.path_offsets)
        row = np.repeat(np.arange(workload.num_requests), lengths)
        node, is_prompt = workload.path_nodes, np.ones(len(row), dtype=np.bool_)
        if workload.output_node is not None:
            generating = np.flatnonzero(workload.output_node != NO_NODE)
            row = np.concatenate((row, generating))
            node = np.concatenate((node, workload.output_node[generating]))
            is_prompt = np.concatenate((is_prompt, np.zeros(len(generating), dtype=np.bool_)))
            order = np.argsort(row, kind="stable")
            row, node, is_prompt = row[order], node[order], is_prompt[order]
        by_node = np.argsort(node, kind="stable")
        is_again = np.diff(node[by_node], prepend=NO_NODE) == 0
        row_before = np.empty_like(row)
        row_before[by_node] = np.where(is_again, np.append(-1, row[by_node][:-1]), -1)
        return NodeUses(row, node, is_prompt, row_before)
