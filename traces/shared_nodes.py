"""The nodes that two or more requests use, found in one of two ways with the same result.

`by_chain` is vectorised and needs keys that name their whole prefix, as chained block hashes do;
`by_radix` takes any keys and, on very long traces, far less memory.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.prefix_tree import NO_NODE
from sim.workload import IntArray
from traces.radix import ROOT, RadixBuilder, RadixTree
from traces.run_keys import KeyedRuns

MAX_CHAIN_KEYS = 1 << 24
"""Beyond so many keys `by_chain` would need hundreds of MB."""


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
    nodes = by_chain(runs) if len(runs.keys) <= MAX_CHAIN_KEYS else None
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
    """Shared nodes straight from the keys; None if a key follows different keys in two places.

    A run begins a node unless all requests that use the run above it go on to use it too.
    """
    keys = runs.keys
    if not len(keys):
        return None
    above = np.empty_like(keys)
    above[1:] = keys[:-1]
    above[runs.offsets[:-1][np.diff(runs.offsets) > 0]] = -1
    above_key = np.empty(int(keys.max()) + 1, dtype=np.int32)
    above_key[keys] = above
    if (above_key[keys] != above).any():
        return None
    uses = np.bincount(keys)
    begins = _begins_node(runs, uses, above_key)
    is_shared = (uses >= 2)[keys]
    begins_here = begins[keys] & is_shared
    return _number(runs, is_shared, begins_here)


def _begins_node(
    runs: KeyedRuns, uses: IntArray, above_key: npt.NDArray[np.int32]
) -> npt.NDArray[np.bool_]:
    is_end = np.zeros(len(uses), dtype=np.bool_)
    has_prompt = runs.prompt_end > runs.offsets[:-1]
    is_end[runs.keys[runs.prompt_end[has_prompt] - 1]] = True
    # Keys that never occur have an undefined entry above them; nobody reads their answer.
    above = np.clip(above_key, -1, len(uses) - 1)
    begins: npt.NDArray[np.bool_] = (above < 0) | (uses != uses[above]) | is_end[above]
    return begins


def _number(
    runs: KeyedRuns, is_shared: npt.NDArray[np.bool_], begins_here: npt.NDArray[np.bool_]
) -> SharedNodes:
    """Nodes from the places where a shared run lies and where one begins a node."""
    place = np.flatnonzero(begins_here)
    key, first_use = np.unique(runs.keys[place], return_index=True)
    first = place[first_use]
    order = _in_order(first, runs)
    node_of_key = np.empty(len(runs.keys) and int(runs.keys.max()) + 1, dtype=np.int64)
    node_of_key[key[order]] = np.arange(len(order))
    # Visit i is the i-th place where a node begins; the extra last entry answers for "none".
    node_of_visit = np.append(node_of_key[runs.keys[place]], NO_NODE)
    visits_before = np.append(0, np.cumsum(begins_here))
    visit_keys = np.bincount((visits_before[1:] - 1)[is_shared], minlength=len(place))
    first = first[order]
    visit = visits_before[first]
    is_root = np.isin(first, runs.offsets[:-1])
    begin, end = visits_before[runs.offsets[:-1]], visits_before[runs.prompt_end]
    last = np.where(runs.has_output, runs.offsets[1:] - 1, 0)
    is_output = runs.has_output & is_shared[last]
    return SharedNodes(
        first=first,
        num_keys=visit_keys[visit],
        parent=node_of_visit[np.where(is_root, -1, visit - 1)],
        prompt_leaf=node_of_visit[np.where(end > begin, end - 1, -1)],
        output_node=node_of_visit[np.where(is_output, visits_before[last + 1] - 1, -1)],
    )


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
