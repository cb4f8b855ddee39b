"""Writes the Azure format: absolute times and lengths, nothing else."""

from pathlib import Path

import numpy as np

from experiments.results.atomic import write_atomically
from experiments.trace_cli.losses import lost_columns, refuse_losses
from experiments.trace_cli.progress import Progress
from traces.prefix_compress import compress
from traces.readers.azure import HEADER
from traces.schema import TraceTable

ORIGIN = "2000-01-01T00:00:00"
"""Written for time 0; a reader takes the first row as time 0."""

_CHUNK_ROWS = 65_536


def write_azure(path: Path, table: TraceTable, is_lossy: bool, progress: Progress | None) -> None:
    """Write `table`.

    Args:
        path: the file.
        table: the trace.
        is_lossy: leave out what the format cannot say.
        progress: told of the rows written.

    Raises:
        ConfigError: the format cannot say all of it and `is_lossy` is false.
    """
    losses = lost_columns(table)
    if table.runs is not None and compress(table).tree.num_nodes:
        losses.append("all sharing between prompts")
    if table.arrival_s[0] > 0:
        losses.append(f"the {table.arrival_s[0]:.9g} s before the first request")
    time_ns = np.rint(table.arrival_s * 1e9).astype(np.int64)
    if (time_ns / 1e9 != table.arrival_s).any():
        losses.append("fractions of a nanosecond")
    refuse_losses(losses, "azure", is_lossy)
    origin = np.datetime64(ORIGIN, "ns").astype(np.int64)

    def write(temporary: Path) -> None:
        with temporary.open("w", encoding="ascii", newline="\n") as file:
            file.write(f"{HEADER}\n")
            n = table.num_requests
            for first in range(0, n, _CHUNK_ROWS):
                rows = slice(first, first + _CHUNK_ROWS)
                stamps = (origin + time_ns[rows]).astype("datetime64[ns]").astype(str)
                lengths = (table.prompt_tokens[rows], table.output_tokens[rows])
                for stamp, prompt, output in zip(stamps, *lengths, strict=True):
                    file.write(f"{stamp.replace('T', ' ')},{prompt},{output}\n")
                if progress is not None:
                    progress(min(first + _CHUNK_ROWS, n), n)

    write_atomically(path, write)
