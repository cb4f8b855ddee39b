"""Writes the Mooncake format: times in ms, lengths, ids of prompt blocks."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from experiments.results.atomic import write_atomically
from experiments.trace_cli.losses import lost_columns, refuse_losses
from experiments.trace_cli.progress import Progress
from sim.errors import ConfigError
from sim.prefix_tree import BlockGeometry
from sim.workload import FloatArray, IntArray
from traces.prefix_compress import compress
from traces.schema import IdArray, TraceTable

DEFAULT_BLOCK_TOKENS = 512
_CHUNK_ROWS = 4096


def write_mooncake(
    path: Path,
    table: TraceTable,
    is_lossy: bool,
    block_tokens: int | None,
    progress: Progress | None,
) -> None:
    """Write `table`; what prompts share is kept in whole blocks.

    Args:
        path: the file.
        table: the trace.
        is_lossy: leave out what the format cannot say.
        block_tokens: tokens per hash id; None: as in the trace, or 512.
        progress: told of the rows written.

    Raises:
        ConfigError: the format cannot say all of it and `is_lossy` is false.
    """
    of_table = None if table.runs is None else table.runs.block_tokens
    size = block_tokens or of_table or DEFAULT_BLOCK_TOKENS
    is_exact = table.runs is not None and size == of_table and _covers_all(table, size)
    losses = lost_columns(table)
    if table.output_run is not None and (table.output_run >= 0).any():
        losses.append("that later prompts hold earlier outputs, but for whole blocks")
    if table.runs is not None and not is_exact:
        losses.append(f"sharing of less than whole blocks of {size} tokens")
    refuse_losses(losses, "mooncake", is_lossy)
    if is_exact:
        assert table.runs is not None
        ids, offsets = table.runs.ids, table.runs.offsets
    else:
        ids, offsets = _block_ids(table, size)
    if len(ids) and int(ids.max()) > 2**62:
        raise ConfigError("--to mooncake: ids above 2**62 do not fit; add anonymise=true")
    write_atomically(path, lambda temporary: _write(temporary, table, ids, offsets, progress))


def _covers_all(table: TraceTable, size: int) -> bool:
    """Whether every prompt has an id for each of its blocks."""
    assert table.runs is not None
    counts = np.diff(table.runs.offsets)
    return bool((counts == -(-table.prompt_tokens // size)).all())


def _block_ids(table: TraceTable, size: int) -> tuple[IdArray, IntArray]:
    """Ids of the blocks of every prompt: those of shared nodes, then new ones."""
    workload = compress(table)
    geometry = BlockGeometry.of(workload.tree, size)
    node_blocks = np.array(geometry.num_blocks, dtype=np.int64)
    first_id = np.append(0, np.cumsum(node_blocks))
    counts = -(-table.prompt_tokens // size)
    offsets = np.append(0, np.cumsum(counts))
    ids = first_id[-1] + np.arange(offsets[-1])
    row = np.repeat(np.arange(workload.num_requests), np.diff(workload.path_offsets))
    length = node_blocks[workload.path_nodes]
    first_block = np.array(geometry.first_block, dtype=np.int64)[workload.path_nodes]
    within = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    where = np.repeat(offsets[row] + first_block, length) + within
    ids[where] = np.repeat(first_id[workload.path_nodes], length) + within
    return ids, offsets


def _write(
    path: Path, table: TraceTable, ids: IdArray, offsets: IntArray, progress: Progress | None
) -> None:
    n = table.num_requests
    with path.open("w", encoding="ascii", newline="\n") as file:
        for first in range(0, n, _CHUNK_ROWS):
            last = min(first + _CHUNK_ROWS, n)
            file.writelines(_lines(table, ids, offsets, first, last))
            if progress is not None:
                progress(last, n)


def _lines(
    table: TraceTable, ids: IdArray, offsets: IntArray, first: int, last: int
) -> Iterator[str]:
    rows = slice(first, last)
    bounds = offsets[first : last + 1] - offsets[first]
    chunk = ids[offsets[first] : offsets[last]].tolist()
    columns = (
        milliseconds(table.arrival_s[rows]),
        table.prompt_tokens[rows],
        table.output_tokens[rows],
        bounds[:-1],
        bounds[1:],
    )
    for time_ms, prompt, output, begin, end in zip(*map(np.ndarray.tolist, columns), strict=True):
        shown = int(time_ms) if time_ms.is_integer() else time_ms
        yield (
            f'{{"timestamp": {shown}, "input_length": {prompt}, "output_length": {output}, '
            f'"hash_ids": {chunk[begin:end]}}}\n'
        )


def milliseconds(time_s: FloatArray) -> FloatArray:
    """Times in ms; whole numbers where these give the same seconds.

    Others may come back with another last bit: some doubles are a thousandth of none.
    """
    time_ms = time_s * 1000
    whole = np.rint(time_ms)
    exact: FloatArray = np.where(whole / 1000 == time_s, whole, time_ms)
    return exact
