"""The nodes that two or more requests use, found in one of two ways with the same result.

`by_chain` (`traces.chained_keys`) is vectorised and needs keys that name their whole prefix, as
chained block hashes do; `by_radix` takes any keys.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.prefix_tree import NO_NODE
from sim.workload import IntArray
from traces.chained_keys import ChainedKeys
from traces.radix import ROOT, RadixBuilder, RadixTree
from traces.run_keys import KeyedRuns


@dataclass(frozen=True, slots=True)
class SharedNodes:
    """Shared nodes in order of (runs before them, first use).

    Attributes:
        first: where each node's first run first occurs in the keys. Shape (num_nodes,).
        num_keys: runs in each node. Shape (num_nodes,).
        parent: parent node, `NO_NODE` for roots. Shape (num_nodes,).
        prompt_leaf: deepest shared node of each prompt, or `NO_NODE`. Shape (num_requests,).
        output_node: node of each request's reused output, or `NO_NODE`. Shape (num_requests,).
    """

    first: IntArray
    num_keys: IntArray
    parent: IntArray
    prompt_leaf: IntArray
    output_node: IntArray


def shared_nodes(runs: KeyedRuns) -> SharedNodes:
    """Shared nodes of all sequences."""
    nodes = by_chain(runs)
    return by_radix(runs) if nodes is None else nodes


def by_radix(runs: KeyedRuns) -> SharedNodes:
    """Shared nodes by way of the radix tree of all sequences."""
    radix = RadixBuilder(runs.keys).build(runs.offsets[:-1], runs.prompt_end, runs.offsets[1:])
    prompt_leaf, last_leaf = radix.ends
    by_start = _in_order(radix.first, runs)
    by_start = by_start[by_start != ROOT]
    is_shared = _uses(radix, last_leaf, by_start) >= 2
    is_shared[ROOT] = True
    kept = by_start[is_shared[by_start]]
    new_id = np.full(len(radix.parent), NO_NODE, dtype=np.int64)
    new_id[kept] = np.arange(len(kept))
    while not is_shared[prompt_leaf].all():  # two steps at most: an output, its prompt
        prompt_leaf = np.where(is_shared[prompt_leaf], prompt_leaf, radix.parent[prompt_leaf])
    return SharedNodes(
        first=radix.first[kept],
        num_keys=radix.num_keys[kept],
        parent=new_id[radix.parent[kept]],
        prompt_leaf=new_id[prompt_leaf],
        output_node=np.where(runs.has_output, new_id[last_leaf], NO_NODE),
    )


def by_chain(runs: KeyedRuns) -> SharedNodes | None:
    """Shared nodes straight from the keys; None if a key follows different keys in two places."""
    keys = ChainedKeys.of(runs)
    if keys is None:
        return None
    # A visit is a place in a prompt or output where a shared node begins.
    place, shared_end = keys.visits()
    visit_key = runs.keys[place]
    number = np.full(keys.num_keys, -1, dtype=np.int32)
    visits = np.arange(len(place), dtype=np.int32)
    number[visit_key[::-1]] = visits[::-1]  # of equal keys the last one assigned stays: the first
    first_visit = np.flatnonzero(number[visit_key] == visits)
    first_visit = first_visit[_in_order(place[first_visit], runs)]
    number[visit_key[first_visit]] = np.arange(len(first_visit), dtype=np.int32)
    node = np.append(number[visit_key], np.int32(NO_NODE))  # its last entry answers for "none"
    return SharedNodes(**_columns(runs, place, shared_end, first_visit, node))


def _columns(
    runs: KeyedRuns,
    place: IntArray,
    shared_end: IntArray,
    first_visit: IntArray,
    node: npt.NDArray[np.int32],
) -> dict[str, IntArray]:
    first = place[first_visit]
    row = runs.row_of(first)
    next_place = np.append(place, len(runs.keys))[first_visit + 1]
    is_root = first == runs.offsets[row]
    begin, end = np.searchsorted(place, runs.offsets[:-1]), np.searchsorted(place, runs.prompt_end)
    is_output = runs.has_output & (shared_end == runs.offsets[1:])
    last_visit = np.searchsorted(place, runs.offsets[1:]) - 1

    def nodes(visit: IntArray) -> IntArray:
        return node[visit].astype(np.int64)

    return {
        "first": first,
        "num_keys": np.minimum(next_place, shared_end[row]) - first,
        "parent": nodes(np.where(is_root, -1, first_visit - 1)),
        "prompt_leaf": nodes(np.where(end > begin, end - 1, -1)),
        "output_node": nodes(np.where(is_output, last_visit, -1)),
    }


def _in_order(first: IntArray, runs: KeyedRuns) -> IntArray:
    """Order of slices by runs before them, then by place; parents precede children."""
    return np.lexsort((first, first - runs.offsets[runs.row_of(first)]))


def _uses(radix: RadixTree, last_leaf: IntArray, by_start: IntArray) -> IntArray:
    """Requests that use each node: those that end in it or below it."""
    num_nodes = len(radix.parent)
    uses: list[int] = np.bincount(last_leaf, minlength=num_nodes).tolist()
    parent = radix.parent.tolist()
    for node in reversed(by_start.tolist()):
        uses[parent[node]] += uses[node]
    return np.array(uses, dtype=np.int64)
