"""Chats as they are read, each with the chat that it goes on from."""

from array import array
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.workload import IntArray
from traces.readers.json_lines import Bad, why_not_whole
from traces.readers.label_column import LabelColumn, why_not_label
from traces.readers.prompt_rows import BLOCK_KEYS, PromptRows
from traces.readers.reading import Reading
from traces.schema import TraceTable

KEYS = ("chat_id", "parent_chat_id", *BLOCK_KEYS, "type", "turn")

MAX_TIMESTAMP_S = 10**9
"""Latest time accepted (31 years); times since the epoch are thus refused."""


class LinkedChats:
    """Growing columns of a file.

    Args:
        block_tokens: prompt tokens per hash id.
    """

    def __init__(self, block_tokens: int) -> None:
        self.prompts = PromptRows(block_tokens, MAX_TIMESTAMP_S, "seconds from the start")
        self._chats, self._parents, self._turns = (array("q") for _ in range(3))
        self._types = LabelColumn()

    def __len__(self) -> int:
        return len(self._chats)

    def faults(self, row: dict[str, Any]) -> list[Bad]:
        """All that is wrong with a row on its own."""
        whys = (
            why_not_whole(row, "chat_id", 0),
            why_not_whole(row, "parent_chat_id", -1),
            *self.prompts.faults(row),
            why_not_label(row, "type"),
            why_not_whole(row, "turn", 1),
        )
        return [bad for bad in whys if bad]

    def add(self, line: int, row: dict[str, Any]) -> None:
        """Append a row that has no `faults`."""
        self.prompts.add(line, row)
        self._chats.append(row["chat_id"])
        self._parents.append(row["parent_chat_id"])
        self._turns.append(row["turn"])
        self._types.add(row["type"])

    @property
    def chat_id(self) -> IntArray:
        """Number of each row's chat. Shape (n,)."""
        return np.frombuffer(self._chats, dtype=np.int64)

    @property
    def parent_chat_id(self) -> IntArray:
        """Number of the chat it goes on from, -1 where none. Shape (n,)."""
        return np.frombuffer(self._parents, dtype=np.int64)

    @property
    def has_absent_parent(self) -> npt.NDArray[np.bool_]:
        """Whether the parent is a chat that the file does not hold. Shape (n,)."""
        is_absent: npt.NDArray[np.bool_] = (self.parent_chat_id >= 0) & (self._parent_rows() < 0)
        return is_absent

    def parents(self, reading: Reading) -> tuple[IntArray, npt.NDArray[np.bool_]]:
        """Row of each chat's parent (-1: none in the file), and whether the row is good.

        Bad is a row whose chat another line has already, or whose parent is no earlier chat.
        """
        chat_id, lines, clock_s = self.chat_id, self.prompts.lines, self.prompts.timestamps
        is_good = np.zeros(len(self), dtype=np.bool_)
        _, first, same = np.unique(chat_id, return_index=True, return_inverse=True)
        is_good[first] = True
        for row in np.flatnonzero(~is_good).tolist():
            why = f"chat_id {chat_id[row]}: must be new, line {lines[first[same[row]]]} has it too"
            reading.fault(int(lines[row]), "chat_id", why)
        parent, row_number = self._parent_rows(), np.arange(len(self))
        is_later = (clock_s[parent] > clock_s) | (
            (clock_s[parent] == clock_s) & (parent >= row_number)
        )
        is_wrong = is_good & (parent >= 0) & is_later
        for row in np.flatnonzero(is_wrong).tolist():
            why = (
                f"parent_chat_id {chat_id[parent[row]]}: must be an earlier chat or -1, that one "
                f"is on line {lines[parent[row]]}"
            )
            reading.fault(int(lines[row]), "parent_chat_id", why)
        is_good &= ~is_wrong
        return np.where(is_good, parent, -1), is_good

    def _parent_rows(self) -> IntArray:
        """Row that has each row's parent as its chat, -1 where none has."""
        if not len(self):
            return np.empty(0, dtype=np.int64)
        chats, first = np.unique(self.chat_id, return_index=True)
        found = np.searchsorted(chats, self.parent_chat_id).clip(max=len(chats) - 1)
        return np.where(chats[found] == self.parent_chat_id, first[found], -1)

    def table(self, parent: IntArray) -> TraceTable:
        """All rows as the file has them; the session is the number of its first chat."""
        return TraceTable(
            arrival_s=self.prompts.timestamps,
            prompt_tokens=self.prompts.prompt_tokens,
            output_tokens=self.prompts.output_tokens,
            runs=self.prompts.runs,
            session_id=self._first_chats(parent),
            turn=np.frombuffer(self._turns, dtype=np.int64) - 1,
            parent_id=parent,
            slo_class=self._types.labels,
        )

    def _first_chats(self, parent: IntArray) -> IntArray:
        """Number of the chat that each row's conversation began with, in the file or before."""
        first = np.where(parent < 0, np.arange(len(self)), parent)
        while (first != first[first]).any():
            first = first[first]
        number = np.where(self.has_absent_parent, self.parent_chat_id, self.chat_id)
        return number[first]
