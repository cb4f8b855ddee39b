"""Mooncake traces: JSON lines with chained hashes of 512-token prompt blocks.

A row is `{"timestamp": ms from the start, "input_length": tokens, "output_length": tokens,
"hash_ids": [one per started block]}`; further keys are allowed and not read. Two prompts with equal
first k ids share their first k blocks. Sharing inside a block that is partial in one of them is not
in the data and is not modelled.

Source: kvcache-ai/Mooncake, FAST'25 trace release (conversation and synthetic obey all checks;
toolagent has the same schema).
"""

from dataclasses import dataclass
from pathlib import Path

from traces.options import MAX_TOKENS, require_bool, require_int, require_path
from traces.readers.json_lines import JsonLines
from traces.readers.prompt_rows import BLOCK_KEYS, PromptRows
from traces.readers.reading import Reading
from traces.readers.source_file import in_arrival_order, provenance_of_file
from traces.schema import TraceTable

MAX_TIMESTAMP_MS = 10**12
"""Latest time accepted (31 years); times since the epoch are thus refused."""


@dataclass(frozen=True, slots=True)
class MooncakeTrace:
    """A Mooncake file.

    Attributes:
        path: the JSON lines file, plain, gzip or zstd.
        block_tokens: prompt tokens per hash id.
        sort: order rows by time instead of refusing disorder.
    """

    path: str | Path
    block_tokens: int = 512
    sort: bool = False

    def __post_init__(self) -> None:
        require_path("trace.path", self.path)
        require_int("trace.block_tokens", self.block_tokens, 1, MAX_TOKENS)
        require_bool("trace.sort", self.sort)

    def load(self, seed: int) -> TraceTable:
        """Read the file; `seed` has no effect."""
        return self.read(Reading(self.path))

    def read(self, reading: Reading) -> TraceTable:
        """Read the file in one pass."""
        file = JsonLines(reading, BLOCK_KEYS)
        good = PromptRows(self.block_tokens, MAX_TIMESTAMP_MS, "milliseconds from the start")
        for line, row in file.rows():
            faults = good.faults(row)
            for bad in faults:
                reading.fault(line, *bad)
            if not faults:
                good.add(line, row)
        options = {"block_tokens": self.block_tokens, "sort": self.sort}
        table = TraceTable(
            arrival_s=good.timestamps / 1000,
            prompt_tokens=good.prompt_tokens,
            output_tokens=good.output_tokens,
            runs=good.runs,
            provenance=provenance_of_file("mooncake", file.sha256, len(good), options),
        )
        return in_arrival_order(reading, table, good.timestamps, self.sort, 1, good.lines)


def read_mooncake(
    path: str | Path, /, *, block_tokens: int = 512, sort: bool = False
) -> TraceTable:
    """Read a Mooncake file (contract: `traces.schema.TraceReader`).

    Args:
        path: the JSON lines file.
        block_tokens: prompt tokens per hash id.
        sort: order rows by time instead of refusing disorder.
    """
    return MooncakeTrace(path, block_tokens=block_tokens, sort=sort).load(0)
