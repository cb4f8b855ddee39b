"""Qwen-Bailian traces: JSON lines of chats with hashes of 16-token prompt blocks.

A row is `{"chat_id": number, "parent_chat_id": chat before this one or -1, "timestamp": s from the
start, "input_length": tokens, "output_length": tokens, "type": text, search, image or file,
"turn": from 1, "hash_ids": [one per started block]}`. An id names the content of one block, so that
it may return behind another prefix; whole prefixes count.

What a chat decodes stays in the cache for the chats that go on from it: see `traces.output_blocks`
for the rule and what it takes for granted. It does not hold where the client leaves out part of an
answer, as reasoning models ask for: turn `output_reuse` off for the thinking trace.

`type` becomes the SLO class: it says what kind of service a request asks for, not who asks. A chat
whose parent is not in the file began before the trace did.

Source: alibaba-edu/qwen-bailian-usagetraces-anon, README and docs/qa-context-growth-pattern.md
(special tokens of an answer are missing in the next prompt; the id of a partial last block changes
once output fills it).
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sim.workload import IntArray
from traces.options import MAX_TOKENS, require_bool, require_int, require_path
from traces.output_blocks import with_reused_outputs
from traces.readers.json_lines import JsonLines
from traces.readers.linked_chats import KEYS, LinkedChats
from traces.readers.reading import Reading
from traces.readers.source_file import in_arrival_order, provenance_of_file
from traces.schema import TraceTable


@dataclass(frozen=True, slots=True)
class QwenBailianTrace:
    """A Qwen-Bailian file.

    Attributes:
        path: the JSON lines file, plain, gzip or zstd.
        block_tokens: prompt tokens per hash id.
        output_reuse: whether a chat that goes on from another one finds what that one decoded in
            the cache; otherwise only what prompts share counts.
        sort: order rows by time instead of refusing disorder.
    """

    path: str | Path
    block_tokens: int = 16
    output_reuse: bool = True
    sort: bool = False

    def __post_init__(self) -> None:
        require_path("trace.path", self.path)
        require_int("trace.block_tokens", self.block_tokens, 1, MAX_TOKENS)
        require_bool("trace.output_reuse", self.output_reuse)
        require_bool("trace.sort", self.sort)

    def load(self, seed: int) -> TraceTable:
        """Read the file; `seed` has no effect."""
        return self.read(Reading(self.path))

    def read(self, reading: Reading) -> TraceTable:
        """Read the file in one pass."""
        file, chats = JsonLines(reading, KEYS), LinkedChats(self.block_tokens)
        for line, row in file.rows():
            faults = chats.faults(row)
            for bad in faults:
                reading.fault(line, *bad)
            if not faults:
                chats.add(line, row)
        parent, is_good = chats.parents(reading)
        good = np.flatnonzero(is_good)
        table = replace(chats.table(parent), provenance=self._provenance(file, chats, good))
        if len(good) < len(chats):
            table = table.take(good)
        lines, clock_s = chats.prompts.lines[good], chats.prompts.timestamps[good]
        table = in_arrival_order(reading, table, clock_s, self.sort, 1, lines)
        session_id, parent_id = table.session_id, table.parent_id
        assert session_id is not None
        assert parent_id is not None
        table = replace(table, session_id=_by_first_use(session_id))
        return with_reused_outputs(table, parent_id) if self.output_reuse else table

    def _provenance(self, file: JsonLines, chats: LinkedChats, good: IntArray) -> dict[str, Any]:
        options = {name: getattr(self, name) for name in ("block_tokens", "output_reuse", "sort")}
        provenance = provenance_of_file("qwen_bailian", file.sha256, len(good), options)
        return {**provenance, "absent_parents": int(chats.has_absent_parent[good].sum())}


def _by_first_use(values: IntArray) -> IntArray:
    """Values renumbered from 0 in the order in which they first occur."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    renumbered: IntArray = rank[inverse]
    return renumbered
