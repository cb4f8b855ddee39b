"""Calls of agent sessions as they are read: columns, and where in its session each row must be."""

from array import array
from typing import Any

import numpy as np

from sim.workload import FloatArray, IntArray
from traces.options import shown
from traces.readers.json_lines import Bad, why_not_whole
from traces.readers.label_column import LabelColumn, why_not_label
from traces.readers.prompt_rows import BLOCK_KEYS, PromptRows
from traces.schema import TraceTable

KEYS = ("agent", "session_id", "call", *BLOCK_KEYS)

MAX_TIMESTAMP_MS = 10**12
"""Latest time accepted (31 years); times since the epoch are thus refused."""


class AgentCalls:
    """Growing columns of a file.

    Args:
        block_tokens: prompt tokens per hash id.
    """

    def __init__(self, block_tokens: int) -> None:
        self.prompts = PromptRows(block_tokens, MAX_TIMESTAMP_MS, "milliseconds from the start")
        self._numbers = array("q")
        self._agents, self._sessions = LabelColumn(), LabelColumn()
        self._session: str | None = None
        self._ended: set[str] = set()
        self._last_call = -1
        self._last_time: float = 0

    def add(self, line: int, row: dict[str, Any]) -> list[Bad]:
        """Append a row, or tell all that is wrong with it."""
        names = (why_not_label(row, "session_id"), why_not_whole(row, "call", 0))
        misplaced = None if any(names) else self._why_misplaced(row)
        in_prompt = self.prompts.faults(row)
        early = None
        if not (any(names) or misplaced or any(bad.kind == "timestamp" for bad in in_prompt)):
            early = self._why_early(row)
        whys = (why_not_label(row, "agent"), *names, misplaced, *in_prompt, early)
        faults = [bad for bad in whys if bad]
        if faults:
            return faults
        self._last_time = row["timestamp"]
        self.prompts.add(line, row)
        self._numbers.append(row["call"])
        self._agents.add(row["agent"])
        self._sessions.add(row["session_id"])
        return []

    def _why_misplaced(self, row: dict[str, Any]) -> Bad | None:
        """What is wrong with session and call; later rows are judged by this one too."""
        session, call = row["session_id"], row["call"]
        if session in self._ended:
            return Bad("session_id", f"session_id {shown(session)}: rows must follow one another")
        last_call = self._last_call
        is_first = session != self._session
        if not is_first and call <= last_call:
            return Bad("call", f"call {call}: must be above {last_call}, the call before it")
        if is_first and self._session is not None:
            self._ended.add(self._session)
        if is_first:
            self._session, self._last_time = session, 0
        self._last_call = call
        if is_first and call:
            return Bad("call", f"call {call}: must be 0, the first one of a session")
        return None

    def _why_early(self, row: dict[str, Any]) -> Bad | None:
        time = row["timestamp"]
        if time >= self._last_time:
            return None
        allowed = f"at least {self._last_time}, that of the call before it"
        return Bad("timestamp", f"timestamp {time}: must be {allowed}")

    def sessions(self) -> tuple[IntArray, IntArray]:
        """First row and number of calls of each session."""
        _, first, length = np.unique(self._sessions.codes, return_index=True, return_counts=True)
        return first, length

    def recorded_s(self) -> FloatArray:
        """Time of each call after the first one of its session, seconds. Shape (n,)."""
        first, length = self.sessions()
        time_ms = self.prompts.timestamps
        recorded_s: FloatArray = (time_ms - np.repeat(time_ms[first], length)) / 1000
        return recorded_s

    def table(self, arrival_s: FloatArray) -> TraceTable:
        """Rows as the file has them."""
        return TraceTable(
            arrival_s=arrival_s,
            prompt_tokens=self.prompts.prompt_tokens,
            output_tokens=self.prompts.output_tokens,
            runs=self.prompts.runs,
            session_id=self._sessions.codes,
            turn=np.frombuffer(self._numbers, dtype=np.int64),
            tenant=self._agents.labels,
        )
