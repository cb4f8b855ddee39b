"""Keys that each name their whole prefix: uses, and where shared nodes begin, in tables by key.

Works through the sequences in pieces, so that it needs little more than 20 bytes per distinct key
and 20 per request and shared node on its path.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.workload import IntArray
from traces.radix import Int32Array
from traces.run_keys import KeyedRuns

_CHUNK_KEYS = 1 << 18


@dataclass(frozen=True, slots=True)
class ChainedKeys:
    """What is known of each key, tables of shape (num_keys,) by key.

    Attributes:
        runs: the sequences.
        above: key that every occurrence follows, -1 where it comes first.
        uses: requests that use it.
    """

    runs: KeyedRuns
    above: Int32Array
    uses: Int32Array

    @staticmethod
    def of(runs: KeyedRuns) -> "ChainedKeys | None":
        """The tables; None without keys or if a key follows different keys in two places."""
        if not len(runs.keys):
            return None
        num_keys = int(runs.keys.max()) + 1
        above = np.full(num_keys, -1, dtype=np.int32)
        for rows in _chunks(runs.offsets):
            above[_keys(runs, rows)] = _above(runs, rows)
        uses = np.zeros(num_keys, dtype=np.int32)
        for rows in _chunks(runs.offsets):
            keys = _keys(runs, rows)
            if (above[keys] != _above(runs, rows)).any():
                return None
            np.add.at(uses, keys, np.int32(1))
        return ChainedKeys(runs, above, uses)

    @property
    def num_keys(self) -> int:
        """Size of the tables."""
        return len(self.above)

    def visits(self) -> tuple[IntArray, IntArray]:
        """Where a shared node begins, and where each sequence's shared keys end.

        Both are places in the keys, the first increasing. A key begins a node unless all requests
        that use the key above it, and none of whose prompts ends there, go on to use it too.
        """
        runs = self.runs
        begins = self._begins_node()
        places = []
        shared_end = np.empty(len(runs.prompt_end), dtype=np.int64)
        for rows in _chunks(runs.offsets):
            keys = _keys(runs, rows)
            is_shared = self.uses[keys] >= 2
            start = int(runs.offsets[rows.start])
            places.append(np.flatnonzero(begins[keys] & is_shared) + start)
            # Keys below one that is not shared are not shared either.
            before = np.append(np.int32(0), np.cumsum(is_shared, dtype=np.int32))
            bounds = runs.offsets[rows.start : rows.stop + 1] - start
            shared_end[rows] = runs.offsets[rows] + np.diff(before[bounds])
        return np.concatenate(places), shared_end

    def _begins_node(self) -> npt.NDArray[np.bool_]:
        runs = self.runs
        is_end = np.zeros(self.num_keys, dtype=np.bool_)
        has_prompt = runs.prompt_end > runs.offsets[:-1]
        is_end[runs.keys[runs.prompt_end[has_prompt] - 1]] = True
        begins = np.empty(self.num_keys, dtype=np.bool_)
        for start in range(0, self.num_keys, _CHUNK_KEYS):
            part = slice(start, start + _CHUNK_KEYS)
            above = self.above[part]
            is_other = (self.uses[part] != self.uses[above]) | is_end[above]
            begins[part] = (above < 0) | is_other
        return begins


def _chunks(offsets: IntArray) -> Iterator[slice]:
    """Ranges of rows with about a quarter of a million keys each (more where one row has more)."""
    first, num_rows = 0, len(offsets) - 1
    while first < num_rows:
        stop = int(np.searchsorted(offsets, offsets[first] + _CHUNK_KEYS, side="right")) - 1
        stop = min(max(stop, first + 1), num_rows)
        yield slice(first, stop)
        first = stop


def _keys(runs: KeyedRuns, rows: slice) -> Int32Array:
    return runs.keys[runs.offsets[rows.start] : runs.offsets[rows.stop]]


def _above(runs: KeyedRuns, rows: slice) -> Int32Array:
    """Key before each key of the rows, -1 at the start of a row."""
    keys = _keys(runs, rows)
    above = np.empty_like(keys)
    above[1:] = keys[:-1]
    bounds = runs.offsets[rows.start : rows.stop + 1]
    above[(bounds[:-1] - bounds[0])[np.diff(bounds) > 0]] = -1
    return above
