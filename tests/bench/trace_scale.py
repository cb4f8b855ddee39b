"""`python -m tests.bench.trace_scale`: time and memory to load and compress very long block traces.

Conversations under shared system prompts, in random order, with int32 ids: each prompt is a system
prompt, the conversation so far and one block of its own. Every case runs in its own process, whose
peak memory includes the trace itself; the file that it loads is written by another one.
"""

import argparse
import multiprocessing
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sim.rng import stream
from sim.workload import IntArray
from traces.prefix_compress import compress
from traces.readers.parquet_table import ParquetTrace
from traces.schema import PromptRuns, TraceTable
from traces.writers.parquet import write_table

NUM_SYSTEMS, SYSTEM_BLOCKS, TURNS, BLOCK_TOKENS = 64, 20, 10, 16


@dataclass(frozen=True, slots=True)
class Case:
    """A size: requests, block ids over all their prompts (about), and whether ids are chained."""

    num_requests: int
    num_ids: int
    is_chained: bool = True


CASES = {
    "200 thousand": Case(200_000, 55_000_000),
    "200 thousand, ids of single blocks": Case(200_000, 55_000_000, is_chained=False),
    "1 million": Case(1_000_000, 100_000_000),
    "10 million": Case(10_000_000, 1_000_000_000),
}
HUGE = "10 million"


def block_trace(case: Case) -> TraceTable:
    """The trace of a case."""
    n = case.num_requests
    num_sessions = n // TURNS
    order = stream(0, "bench.order").permutation(n)
    session, turn = order % num_sessions, order // num_sessions
    blocks_per_turn = 2 * (case.num_ids / n - SYSTEM_BLOCKS - 1) / (TURNS + 1)
    counts = SYSTEM_BLOCKS + ((turn + 1) * blocks_per_turn).astype(np.int64) + 1
    offsets = np.append(0, np.cumsum(counts))
    ids = _ids(session, offsets, int(TURNS * blocks_per_turn))
    if not case.is_chained:
        ids[offsets[1:] - 1] = 0
    return TraceTable(
        arrival_s=np.arange(n, dtype=np.float64),
        prompt_tokens=counts * BLOCK_TOKENS - 5,
        output_tokens=np.full(n, 100),
        runs=PromptRuns(ids=ids, offsets=offsets, block_tokens=BLOCK_TOKENS),
    )


def _ids(session: IntArray, offsets: IntArray, longest: int) -> npt.NDArray[np.int32]:
    """Ids of system prompts, then of conversations, then one for each prompt."""
    ids = np.empty(offsets[-1], dtype=np.int32)
    system, chain = np.arange(SYSTEM_BLOCKS), np.arange(longest)
    first_chain = NUM_SYSTEMS * SYSTEM_BLOCKS
    first_own = first_chain + (int(session.max()) + 1) * longest
    bounds = zip(offsets[:-1].tolist(), offsets[1:].tolist(), session.tolist(), strict=True)
    for row, (start, end, talk) in enumerate(bounds):
        middle = start + SYSTEM_BLOCKS
        ids[start:middle] = talk % NUM_SYSTEMS * SYSTEM_BLOCKS + system
        ids[middle : end - 1] = first_chain + talk * longest + chain[: end - 1 - middle]
        ids[end - 1] = first_own + row
    return ids


def main() -> None:
    """Measure one case here, or all of them in processes of their own."""
    parser = argparse.ArgumentParser(prog="tests.bench.trace_scale", description=__doc__)
    parser.add_argument("--case", choices=CASES, help="this one only, in this process")
    parser.add_argument("--huge", action="store_true", help="10 million too: 12 GiB, minutes")
    options = parser.parse_args()
    if options.case:
        _measure(options.case)
        return
    for name in CASES:
        if name != HUGE or options.huge:
            command = [sys.executable, "-m", "tests.bench.trace_scale", "--case", name]
            subprocess.run(command, check=True)


def _measure(name: str) -> None:
    """Write our own parquet in a process apart, then load and compress it here."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.parquet"
        context = multiprocessing.get_context("spawn")
        writer = context.Process(target=_write, args=(name, path))
        writer.start()
        writer.join()
        start, cpu_start = time.perf_counter(), time.process_time()
        table = ParquetTrace(path=path).load(0)
        loaded = time.perf_counter()
        workload = compress(table)
        done, cpu_s = time.perf_counter(), time.process_time() - cpu_start
        num_bytes = path.stat().st_size
    assert table.runs is not None
    peak_gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{name:36s} {table.num_requests:11,d} requests {len(table.runs.ids):14,d} ids "
        f"{num_bytes / 2**20:7.0f} MiB: load {loaded - start:6.2f} s, "
        f"compress {done - loaded:6.2f} s, together {done - start:6.2f} s ({cpu_s:.2f} of CPU), "
        f"peak {peak_gib:5.2f} GiB, {workload.tree.num_nodes:,d} nodes",
        flush=True,
    )


def _write(name: str, path: Path) -> None:
    write_table(path, block_trace(CASES[name]))


if __name__ == "__main__":
    main()
