"""Requests of a workload in order of arrival, made as they come due."""

from collections.abc import Iterator

from sim.request import Request
from sim.workload import Workload

_CHUNK_ROWS = 4096


def requests_of(workload: Workload, max_model_len: int | None = None) -> Iterator[Request]:
    """Yield every request of a workload.

    Columns become Python numbers chunk by chunk, so that memory does not grow with the trace.

    Args:
        workload: the columns.
        max_model_len: outputs are cut where prompt plus output would exceed it, tokens.
    """
    for first in range(0, workload.num_requests, _CHUNK_ROWS):
        last = min(first + _CHUNK_ROWS, workload.num_requests)
        rows = slice(first, last)
        shared = _shared_tokens(workload, first, last)
        outputs = workload.output_tokens[rows]
        if max_model_len is not None:
            outputs = outputs.clip(max=(max_model_len - workload.prompt_tokens[rows]).clip(min=1))
        offsets = workload.path_offsets[first : last + 1].tolist()
        nodes = workload.path_nodes[offsets[0] : offsets[-1]].tolist()
        output_nodes = workload.output_node
        columns = zip(
            range(first, last),
            workload.arrival_s[rows].tolist(),
            workload.prompt_tokens[rows].tolist(),
            outputs.tolist(),
            shared,
            [-1] * (last - first) if output_nodes is None else output_nodes[rows].tolist(),
            strict=True,
        )
        start = offsets[0]
        for k, (row, arrival_s, prompt, output, shared_tokens, output_node) in enumerate(columns):
            path = tuple(nodes[offsets[k] - start : offsets[k + 1] - start])
            yield Request(
                workload, row, arrival_s, prompt, output, path, prompt - shared_tokens, output_node
            )


def _shared_tokens(workload: Workload, first: int, last: int) -> list[int]:
    """Shared prompt tokens of rows `first .. last - 1`: where their last path node ends."""
    ends = workload.path_offsets[first + 1 : last + 1]
    has_path = ends > workload.path_offsets[first:last]
    shared = has_path.astype("int64")
    if has_path.any():
        leaves = workload.path_nodes[ends[has_path] - 1]
        shared[has_path] = workload.tree.end_tokens[leaves]
    values: list[int] = shared.tolist()
    return values
