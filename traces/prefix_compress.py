"""Compression of all prompts of a trace into one prefix tree and a path per request.

Node boundaries lie where paths diverge, where any prompt ends and where a reused output begins or
ends. Only nodes that two or more requests use enter a path; a request uses its prompt's nodes and,
where a later turn may reuse it, the node of its own output. Runs after all transforms, so that
dropped rows share nothing.
"""

import numpy as np

from sim.prefix_tree import NO_NODE, PrefixTree
from sim.workload import IntArray, Workload
from traces.run_keys import keyed_runs
from traces.schema import TraceTable
from traces.shared_nodes import shared_nodes


def compress(table: TraceTable) -> Workload:
    """The workload of a table: paths and private tokens instead of runs.

    Time and memory grow with the number of runs, never with tokens.

    Raises:
        ValueError: an output is reused but the runs do not cover the whole prompt.
    """
    path_offsets = np.zeros(table.num_requests + 1, dtype=np.int64)
    path_nodes = np.empty(0, dtype=np.int64)
    tree, output_node = PrefixTree.empty(), None
    if table.runs is not None:
        tree, prompt_leaf, output_node = _shared_tree(table)
        path_offsets, path_nodes = _paths(tree, prompt_leaf)
    return Workload(
        arrival_s=table.arrival_s,
        prompt_tokens=table.prompt_tokens,
        output_tokens=table.output_tokens,
        path_offsets=path_offsets,
        path_nodes=path_nodes,
        tree=tree,
        output_node=output_node,
        session_id=table.session_id,
        turn=table.turn,
        parent_id=table.parent_id,
        tenant=table.tenant,
        slo_class=table.slo_class,
        priority=table.priority,
        after=table.after,
        delay_s=table.delay_s,
        concurrency=table.concurrency,
        provenance=table.provenance,
    )


def _shared_tree(table: TraceTable) -> tuple[PrefixTree, IntArray, IntArray | None]:
    """The tree, the deepest node of each prompt, and the output nodes of tables that have any."""
    runs = keyed_runs(table)
    nodes = shared_nodes(runs)
    row = runs.row_of(nodes.first)
    start_tokens = runs.tokens_before(row, nodes.first)
    end_tokens = runs.tokens_before(row, nodes.first + nodes.num_keys)
    tree = PrefixTree(nodes.parent, start_tokens, end_tokens - start_tokens)
    return tree, nodes.prompt_leaf, None if table.output_run is None else nodes.output_node


def _paths(tree: PrefixTree, leaf: IntArray) -> tuple[IntArray, IntArray]:
    """Offsets and nodes of the paths from the root down to each leaf (`NO_NODE`: empty path)."""
    depth = [0] * (tree.num_nodes + 1)  # the extra last entry is NO_NODE's
    for node, parent in enumerate(tree.parent.tolist()):
        depth[node] = depth[parent] + 1
    path_length = np.array(depth, dtype=np.int64)[leaf]
    offsets = np.append(0, np.cumsum(path_length))
    nodes = np.empty(offsets[-1], dtype=np.int64)
    rows = np.flatnonzero(leaf != NO_NODE)
    deepest, slot = leaf[rows], offsets[1:][rows] - 1
    while len(deepest):
        nodes[slot] = deepest
        above = tree.parent[deepest]
        is_inner = above != NO_NODE
        deepest, slot = above[is_inner], slot[is_inner] - 1
    return offsets, nodes
