"""Writes a trace in the format that was asked for."""

from pathlib import Path

from experiments.results.atomic import make_writable
from experiments.trace_cli.progress import progress_of
from sim.errors import ConfigError
from traces.schema import TraceTable

TARGETS = ("parquet", "mooncake", "azure")

_SUFFIXES = {".parquet": "parquet", ".jsonl": "mooncake", ".csv": "azure"}


def target_of(path: Path, target: str | None) -> str:
    """The format to write.

    Raises:
        ConfigError: it is not named and the suffix does not tell.
    """
    found = target or _SUFFIXES.get(path.suffix)
    if found is None:
        raise ConfigError(
            f"--out {path}: the suffix names no format ({', '.join(_SUFFIXES)}); give --to "
            f"{', '.join(TARGETS)}"
        )
    return found


def check_place(path: Path, sources: tuple[str, ...] = ()) -> None:
    """Prove that `path` can be written and is none of the files that are read.

    Raises:
        FlocksimError: it cannot, or it is.
    """
    make_writable(path.parent, [path.name])
    if path.exists() and any(Path(place).exists() and path.samefile(place) for place in sources):
        raise ConfigError(f"--out {path}: is the file that is read; choose another one")


def write_trace(
    path: Path, table: TraceTable, target: str, is_lossy: bool, block_tokens: int | None
) -> None:
    """Write `table`, atomically.

    Args:
        path: the file.
        table: the trace.
        target: one of `TARGETS`.
        is_lossy: leave out what the format cannot say.
        block_tokens: tokens per hash of a Mooncake file; None: as in the trace, or 512.

    Raises:
        FlocksimError: the format cannot say all of it and `is_lossy` is false, or the disk refuses.
    """
    if block_tokens is not None and target != "mooncake":
        raise ConfigError(f"--block-tokens {block_tokens} has no effect: {target} has no hashes")
    with progress_of(str(path)) as progress:
        if target == "parquet":
            if is_lossy:
                raise ConfigError("--lossy has no effect: parquet holds everything")
            from traces.writers.parquet import write_table

            write_table(path, table, progress)
        elif target == "mooncake":
            from experiments.trace_cli.mooncake_export import write_mooncake

            write_mooncake(path, table, is_lossy, block_tokens, progress)
        else:
            from experiments.trace_cli.azure_export import write_azure

            write_azure(path, table, is_lossy, progress)


def written_line(path: Path, target: str, table: TraceTable) -> str:
    """What was written, in one line."""
    span_s = float(table.arrival_s[-1] - table.arrival_s[0])
    return f"written: {path} ({target}, {table.num_requests:,} requests over {span_s:,.6g} s)"
