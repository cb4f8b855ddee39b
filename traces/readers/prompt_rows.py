"""Rows with hashed prompt blocks, which several JSON lines formats have in common.

They hold `timestamp`, `input_length`, `output_length` and `hash_ids`: one id per started block of
the prompt.
"""

from array import array
from math import isfinite
from typing import Any

import numpy as np

from sim.workload import FloatArray, IntArray
from traces.options import shown
from traces.readers.json_lines import MAX_ID, Bad
from traces.readers.source_file import why_not_tokens
from traces.schema import IdArray, PromptRuns

BLOCK_KEYS = ("timestamp", "input_length", "output_length", "hash_ids")


class PromptRows:
    """Growing columns of the rows: times, lengths and block ids.

    Ids take four bytes until one does not fit; the arrays grow in place and are handed out without
    a copy.

    Args:
        block_tokens: prompt tokens per hash id.
        max_timestamp: latest time accepted.
        unit: what a time is, for messages.
    """

    def __init__(self, block_tokens: int, max_timestamp: int, unit: str) -> None:
        self._block_tokens = block_tokens
        self._max_timestamp = max_timestamp
        self._unit = unit
        self._timestamps = array("d")
        self._lines, self._prompts, self._outputs, self._counts = (array("q") for _ in range(4))
        self._ids = array("i")

    def faults(self, row: dict[str, Any]) -> list[Bad]:
        """All that is wrong with the keys in `BLOCK_KEYS`."""
        prompt_tokens = row["input_length"]
        why_prompt = why_not_tokens("input_length", prompt_tokens)
        whys = (
            ("timestamp", self._why_bad_time(row["timestamp"])),
            ("input_length", why_prompt),
            ("output_length", why_not_tokens("output_length", row["output_length"])),
            ("hash_ids", self._why_bad_ids(row["hash_ids"], None if why_prompt else prompt_tokens)),
        )
        return [Bad(key, why) for key, why in whys if why]

    def _why_bad_time(self, time: Any) -> str | None:
        is_time = type(time) in (int, float) and 0 <= time <= self._max_timestamp
        if is_time and isfinite(time):
            return None
        allowed = f"a number of {self._unit}, 0 to {self._max_timestamp:,}"
        return f"timestamp {shown(time)}: must be {allowed}"

    def _why_bad_ids(self, ids: Any, prompt_tokens: int | None) -> str | None:
        """What is wrong with the ids of a prompt, of which None does not tell the length."""
        if type(ids) is not list:
            return f"hash_ids {shown(ids)}: must be a list of integers"
        needed = len(ids) if prompt_tokens is None else -(-prompt_tokens // self._block_tokens)
        if len(ids) != needed:
            return (
                f"hash_ids has {len(ids)} ids: must be {needed}, one per {self._block_tokens} "
                f"tokens (trace.block_tokens) of input_length {prompt_tokens}"
            )
        is_int = {int}.issuperset(map(type, ids))
        if is_int and min(ids, default=0) >= 0 and max(ids, default=0) <= MAX_ID:
            return None
        bad = next(i for i in ids if type(i) is not int or not 0 <= i <= MAX_ID)
        return f"hash_ids contains {shown(bad)}: must be integers from 0 to 2**62"

    def add(self, line: int, row: dict[str, Any]) -> None:
        """Append a row that has no `faults`."""
        self._lines.append(line)
        self._timestamps.append(row["timestamp"])
        self._prompts.append(row["input_length"])
        self._outputs.append(row["output_length"])
        self._add_ids(row["hash_ids"])

    def _add_ids(self, ids: list[int]) -> None:
        self._counts.append(len(ids))
        try:
            self._ids.fromlist(ids)  # all or none of them
        except OverflowError:
            self._ids = array("q", self._ids)
            self._ids.fromlist(ids)

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def lines(self) -> IntArray:
        """Line of each row. Shape (n,)."""
        return np.frombuffer(self._lines, dtype=np.int64)

    @property
    def timestamps(self) -> FloatArray:
        """Times as the file has them. Shape (n,)."""
        return np.frombuffer(self._timestamps, dtype=np.float64)

    @property
    def prompt_tokens(self) -> IntArray:
        """Prompt lengths. Shape (n,)."""
        return np.frombuffer(self._prompts, dtype=np.int64)

    @property
    def output_tokens(self) -> IntArray:
        """Output lengths. Shape (n,)."""
        return np.frombuffer(self._outputs, dtype=np.int64)

    @property
    def runs(self) -> PromptRuns:
        """Blocks of the prompts."""
        counts = np.frombuffer(self._counts, dtype=np.int64)
        offsets = np.append(0, np.cumsum(counts))
        return PromptRuns(ids=self._id_array(), offsets=offsets, block_tokens=self._block_tokens)

    def _id_array(self) -> IdArray:
        if self._ids.typecode == "i":
            return np.frombuffer(self._ids, dtype=np.int32)
        return np.frombuffer(self._ids, dtype=np.int64)
