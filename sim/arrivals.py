"""Requests of a workload, made as they come due: in order of arrival, or one by one."""

from collections.abc import Iterable, Iterator
from itertools import chain, pairwise, repeat

import numpy as np

from sim.prefix_tree import NO_NODE
from sim.request import Request
from sim.workload import IntArray, Workload

_CHUNK_ROWS = 4096


def requests_of(workload: Workload, max_model_len: int | None = None) -> Iterator[Request]:
    """All requests of a workload, in order of arrival.

    Columns become Python numbers chunk by chunk, so that memory does not grow with the trace.

    Args:
        workload: the columns.
        max_model_len: outputs are cut where prompt plus output would exceed it, tokens.
    """
    starts = range(0, workload.num_requests, _CHUNK_ROWS)
    return chain.from_iterable(_chunk(workload, first, max_model_len) for first in starts)


def request_at(
    workload: Workload, row: int, arrival_s: float, max_model_len: int | None = None
) -> Request:
    """The request of one row, arriving at `arrival_s` seconds; otherwise as in `requests_of`."""
    prompt, output = workload.prompt_tokens.item(row), workload.output_tokens.item(row)
    if max_model_len is not None:
        output = min(output, max(max_model_len - prompt, 1))
    path = workload.path(row)
    shared = workload.tree.end_tokens.item(path[-1]) if path else 0
    nodes = workload.output_node
    output_node = NO_NODE if nodes is None else nodes.item(row)
    return Request(workload, row, arrival_s, prompt, output, path, prompt - shared, output_node)


def _chunk(workload: Workload, first: int, max_model_len: int | None) -> Iterator[Request]:
    last = min(first + _CHUNK_ROWS, workload.num_requests)
    rows = slice(first, last)
    prompts = workload.prompt_tokens[rows]
    outputs = workload.output_tokens[rows]
    if max_model_len is not None:
        outputs = np.minimum(outputs, np.maximum(max_model_len - prompts, 1))
    output_nodes = workload.output_node
    return map(
        Request,
        repeat(workload),
        range(first, last),
        workload.arrival_s[rows].tolist(),
        prompts.tolist(),
        outputs.tolist(),
        _paths(workload, first, last),
        (prompts - _shared_tokens(workload, first, last)).tolist(),
        repeat(NO_NODE) if output_nodes is None else output_nodes[rows].tolist(),
    )


def _paths(workload: Workload, first: int, last: int) -> Iterable[tuple[int, ...]]:
    offsets = workload.path_offsets[first : last + 1].tolist()
    start = offsets[0]
    nodes = workload.path_nodes[start : offsets[-1]].tolist()
    if not nodes:
        return repeat(())
    return [tuple(nodes[a - start : b - start]) for a, b in pairwise(offsets)]


def _shared_tokens(workload: Workload, first: int, last: int) -> IntArray:
    """Shared prompt tokens of rows `first .. last - 1`: where their last path node ends."""
    ends = workload.path_offsets[first + 1 : last + 1]
    has_path = ends > workload.path_offsets[first:last]
    shared = np.zeros(last - first, dtype=np.int64)
    if has_path.any():
        leaves = workload.path_nodes[ends[has_path] - 1]
        shared[has_path] = workload.tree.end_tokens[leaves]
    return shared
