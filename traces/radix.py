"""Radix tree over key sequences that lie in one array: a node is a slice, split while building."""

from array import array
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.workload import IntArray

Int32Array = npt.NDArray[np.int32]

ROOT = 0
_KEY_BITS = 31


@dataclass(frozen=True, slots=True)
class RadixTree:
    """Nodes over slices of the keys; node 0 is the root and owns none.

    Attributes:
        first: index of each node's first key. Shape (num_nodes,).
        num_keys: keys in each node. Shape (num_nodes,).
        parent: parent of each node, -1 for the root. Shape (num_nodes,).
        ends: node in which each part of each sequence ends. Shape (num_parts, num_sequences).
    """

    first: IntArray
    num_keys: IntArray
    parent: IntArray
    ends: IntArray


class RadixBuilder:
    """Inserts sequences of keys; every sequence end and every divergence becomes a node boundary.

    Args:
        keys: all sequences, concatenated; each key >= 0.
    """

    def __init__(self, keys: Int32Array) -> None:
        self._keys = keys
        self._first = array("q", [0])
        self._num_keys = array("q", [0])
        self._parent = array("q", [-1])
        # One dict for all nodes: child of node v by first key k at v * 2**31 + k. A split leaves
        # the lower half its node number, and with it its children.
        self._child: dict[int, int] = {}

    def build(self, start: IntArray, *part_ends: IntArray) -> RadixTree:
        """Insert the sequences that begin at `start`, each part ending at its `part_ends`."""
        ends = np.zeros((len(part_ends), len(start)), dtype=np.int64)
        bounds = np.stack((start, *part_ends), axis=1).tolist()
        for row, (begin, *row_ends) in enumerate(bounds):
            node, at = ROOT, begin
            for part, end in enumerate(row_ends):
                node = self._insert(node, at, end)
                at = end
                ends[part, row] = node
        first, num_keys, parent = (
            np.array(column, dtype=np.int64)
            for column in (self._first, self._num_keys, self._parent)
        )
        return RadixTree(first, num_keys, parent, ends)

    def _insert(self, node: int, at: int, end: int) -> int:
        """Insert keys[at:end] below `node`; returns the node they end in."""
        key_at, child_of = self._keys.item, self._child
        while at < end:
            slot = (node << _KEY_BITS) + key_at(at)
            child = child_of.get(slot)
            if child is None:
                child_of[slot] = leaf = self._add(at, end - at, node)
                return leaf
            num_keys = self._num_keys[child]
            num_equal = self._num_equal(self._first[child], at, min(num_keys, end - at))
            node = child if num_equal == num_keys else self._split(child, num_equal, slot)
            at += num_equal
        return node

    def _num_equal(self, left: int, right: int, limit: int) -> int:
        """Length of the common beginning of two slices whose first keys are equal."""
        if limit == 1:
            return 1
        differs = self._keys[left : left + limit] != self._keys[right : right + limit]
        position = int(differs.argmax())
        return position if differs[position] else limit

    def _split(self, node: int, num_upper: int, slot: int) -> int:
        """Move the first `num_upper` keys of `node` into a new node above it; returns that one."""
        first = self._first[node]
        upper = self._add(first, num_upper, self._parent[node])
        self._child[slot] = upper
        self._child[(upper << _KEY_BITS) + self._keys.item(first + num_upper)] = node
        self._first[node] = first + num_upper
        self._num_keys[node] -= num_upper
        self._parent[node] = upper
        return upper

    def _add(self, first: int, num_keys: int, parent: int) -> int:
        self._first.append(first)
        self._num_keys.append(num_keys)
        self._parent.append(parent)
        return len(self._first) - 1
