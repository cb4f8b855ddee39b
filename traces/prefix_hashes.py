"""Hashes of every prefix of every prompt of a block trace, for comparing prefixes in bulk.

64 bits: among a hundred million prefixes and a hundred thousand wanted ones, the chance that any
two different ones are taken for equal is about one in a million.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.workload import IntArray
from traces.schema import PromptRuns

HashArray = npt.NDArray[np.uint64]

_CHUNK_IDS = 1 << 20
_FILTER_BITS = 20
_STEP, _MIX_1, _MIX_2 = (
    np.uint64(c) for c in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


class PrefixHashes:
    """Sums of one random-looking word per id and place; 8 bytes per id.

    Args:
        runs: the prompts.
    """

    def __init__(self, runs: PromptRuns) -> None:
        self._offsets = runs.offsets
        self._sums = np.zeros(len(runs.ids) + 1, dtype=np.uint64)
        for rows in self._chunks():
            start, end = self._bounds(rows)
            place = np.arange(start, end) - self._spread(runs.offsets[:-1], rows)
            self._sums[start + 1 : end + 1] = _mixed(runs.ids[start:end], place)
        np.cumsum(self._sums, out=self._sums)

    def of(self, row: IntArray, num_ids: IntArray) -> HashArray:
        """Hash of the first `num_ids` ids of each `row`."""
        start = self._offsets[row]
        hashes: HashArray = self._sums[start + num_ids] - self._sums[start]
        return hashes

    def find(self, keys: HashArray) -> tuple[IntArray, IntArray]:
        """All prefixes whose hash is among `keys`, by row, then by length.

        Args:
            keys: hashes, increasing; at least one.

        Returns:
            The row of each prefix, and the index of its hash in `keys`.
        """
        shift = np.uint64(64 - _FILTER_BITS)
        may_be_key = np.zeros(1 << _FILTER_BITS, dtype=np.bool_)
        may_be_key[keys >> shift] = True
        found_rows, found_keys = [], []
        for rows in self._chunks():
            start, end = self._bounds(rows)
            before = self._spread(self._sums[self._offsets[:-1]], rows)
            hashes = self._sums[start + 1 : end + 1] - before
            place = np.flatnonzero(may_be_key[hashes >> shift])
            key = np.searchsorted(keys, hashes[place]).clip(max=len(keys) - 1)
            is_key = keys[key] == hashes[place]
            place, key = place[is_key] + start, key[is_key]
            found_rows.append(np.searchsorted(self._offsets, place, side="right") - 1)
            found_keys.append(key)
        return np.concatenate(found_rows), np.concatenate(found_keys)

    def _chunks(self) -> list[slice]:
        """Ranges of rows with about a million ids each (more where one row has more)."""
        marks = np.arange(_CHUNK_IDS, int(self._offsets[-1]), _CHUNK_IDS)
        num_rows = len(self._offsets) - 1
        cuts = np.unique([0, *np.searchsorted(self._offsets, marks), num_rows]).tolist()
        return [slice(first, stop) for first, stop in pairwise(cuts)]

    def _bounds(self, rows: slice) -> tuple[int, int]:
        return int(self._offsets[rows.start]), int(self._offsets[rows.stop])

    def _spread(self, of_row: npt.NDArray[Any], rows: slice) -> npt.NDArray[Any]:
        """The value of each row, once per id."""
        counts = np.diff(self._offsets[rows.start : rows.stop + 1])
        return np.repeat(of_row[rows], counts)


def _mixed(ids: npt.NDArray[Any], place: IntArray) -> HashArray:
    """A word per id and place.

    Source: the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
    """
    words: HashArray = ids.astype(np.uint64)
    words += place.astype(np.uint64) * _STEP
    words ^= words >> np.uint64(30)
    words *= _MIX_1
    words ^= words >> np.uint64(27)
    words *= _MIX_2
    words ^= words >> np.uint64(31)
    return words
