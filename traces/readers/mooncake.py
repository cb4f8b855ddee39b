"""Mooncake traces: JSON lines with chained hashes of 512-token prompt blocks.

A row is `{"timestamp": ms from the start, "input_length": tokens, "output_length": tokens,
"hash_ids": [one per started block]}`; further keys are allowed and not read. Two prompts with equal
first k ids share their first k blocks. Sharing inside a block that is partial in one of them is not
in the data and is not modelled.

Source: kvcache-ai/Mooncake, FAST'25 trace release (conversation and synthetic obey all checks).
"""

import io
import json
from array import array
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from sim.errors import TraceFormatError
from traces.options import MAX_TOKENS, require_bool, require_int, require_path, shown
from traces.readers.source_file import (
    in_arrival_order,
    provenance_of_file,
    read_text_bytes,
    why_not_tokens,
)
from traces.schema import IdArray, PromptRuns, TraceTable

KEYS = ("timestamp", "input_length", "output_length", "hash_ids")

MAX_TIMESTAMP_MS = 10**12
"""Latest time accepted (31 years); times since the epoch are thus refused."""

MAX_HASH_ID = 2**62


@dataclass(frozen=True, slots=True)
class MooncakeTrace:
    """A Mooncake file.

    Attributes:
        path: the JSON lines file.
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
        return read_mooncake(self.path, block_tokens=self.block_tokens, sort=self.sort)


def read_mooncake(
    path: str | Path, /, *, block_tokens: int = 512, sort: bool = False
) -> TraceTable:
    """Read a Mooncake file (contract: `traces.schema.TraceReader`).

    Args:
        path: the JSON lines file.
        block_tokens: prompt tokens per hash id.
        sort: order rows by time instead of refusing disorder.
    """
    require_int("trace.block_tokens", block_tokens, 1, MAX_TOKENS)
    data, sha256 = read_text_bytes(path)
    timestamps: list[float] = []
    prompts, outputs, counts, ids = array("q"), array("q"), array("q"), array("q")
    for line, text in enumerate(io.BytesIO(data), 1):
        row = _parse(path, line, text)
        why = _why_bad(row, block_tokens)
        if why:
            raise TraceFormatError(str(path), line, why)
        timestamps.append(row["timestamp"])
        prompts.append(row["input_length"])
        outputs.append(row["output_length"])
        counts.append(len(row["hash_ids"]))
        ids.extend(row["hash_ids"])
    timestamp_ms = np.array(timestamps, dtype=np.float64)
    table = TraceTable(
        arrival_s=timestamp_ms / 1000,
        prompt_tokens=np.array(prompts, dtype=np.int64),
        output_tokens=np.array(outputs, dtype=np.int64),
        runs=PromptRuns(
            ids=_compact(ids),
            offsets=np.append(0, np.cumsum(np.array(counts, dtype=np.int64))),
            block_tokens=block_tokens,
        ),
        provenance=provenance_of_file(
            "mooncake", sha256, len(timestamps), {"block_tokens": block_tokens, "sort": sort}
        ),
    )
    return in_arrival_order(path, table, timestamp_ms, sort, first_line=1)


def _parse(path: str | Path, line: int, text: bytes) -> dict[str, Any]:
    if not text.strip():
        raise TraceFormatError(str(path), line, "blank line, must be a JSON object")
    try:
        row = json.loads(text.decode())
    except json.JSONDecodeError as error:
        why = f"not valid JSON: {error.msg.removesuffix(' at')} at column {error.colno}"
        raise TraceFormatError(str(path), line, why) from None
    except (ValueError, RecursionError) as error:
        raise TraceFormatError(str(path), line, f"not valid JSON: {error}") from None
    if not isinstance(row, dict):
        why = f"{shown(row)}: must be a JSON object with {', '.join(KEYS)}"
        raise TraceFormatError(str(path), line, why)
    # Every key brings a colon: as many colons as keys means that none is repeated.
    if text.count(b":") != len(row):
        repeated = _repeated_key(text)
        if repeated is not None:
            raise TraceFormatError(str(path), line, f"key {shown(repeated)} appears twice")
    return row


def _repeated_key(text: bytes) -> str | None:
    """A key that one object of a row names twice, None if there is none."""
    repeated: list[str] = []

    def note(pairs: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            repeated.append(next(name for name in names if names.count(name) > 1))

    json.loads(text.decode(), object_pairs_hook=note)
    return repeated[0] if repeated else None


def _why_bad(row: dict[str, Any], block_tokens: int) -> str | None:
    """What is wrong with a row, None if nothing is."""
    for key in KEYS:
        if key not in row:
            return f"key {key!r} is missing, a row needs {', '.join(KEYS)}"
    time = row["timestamp"]
    if type(time) not in (int, float) or not (0 <= time <= MAX_TIMESTAMP_MS and isfinite(time)):
        allowed = f"a number of milliseconds from the start, 0 to {MAX_TIMESTAMP_MS:,}"
        return f"timestamp {shown(time)}: must be {allowed}"
    prompt_tokens = row["input_length"]
    why = why_not_tokens("input_length", prompt_tokens)
    why = why or why_not_tokens("output_length", row["output_length"])
    return why or _why_bad_ids(row["hash_ids"], prompt_tokens, block_tokens)


def _why_bad_ids(ids: Any, prompt_tokens: int, block_tokens: int) -> str | None:
    if type(ids) is not list:
        return f"hash_ids {shown(ids)}: must be a list of integers"
    needed = -(-prompt_tokens // block_tokens)
    if len(ids) != needed:
        return (
            f"hash_ids has {len(ids)} ids: must be {needed}, one per {block_tokens} tokens "
            f"(trace.block_tokens) of input_length {prompt_tokens}"
        )
    is_int = {int}.issuperset(map(type, ids))
    if is_int and min(ids) >= 0 and max(ids) <= MAX_HASH_ID:
        return None
    bad = next(i for i in ids if type(i) is not int or not 0 <= i <= MAX_HASH_ID)
    return f"hash_ids contains {shown(bad)}: must be integers from 0 to 2**62"


def _compact(ids: "array[int]") -> IdArray:
    wide = np.frombuffer(ids, dtype=np.int64)
    return wide.astype(np.int32) if wide.max() < 2**31 else wide.copy()
