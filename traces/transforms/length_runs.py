"""Runs of a table with their token counts, ready for a change of lengths.

Runs of equal id and equal count get a key of their own, so that counts which a change makes equal
do not make prompts share what they did not share before.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sim.workload import IntArray
from traces.run_keys import keyed_runs
from traces.schema import PromptRuns, TraceTable

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class LengthRuns:
    """The runs of each prompt, then the request's own output where a later prompt may hold it.

    Attributes:
        keys: equal where id and token count are equal.
        tokens: tokens of each run, like `keys`.
        offsets: start of each request's slice of `keys`. Shape (n + 1,).
        prompt_end: end of the prompt's part of that slice. Shape (n,).
        is_output: whether a run is what some request generates, like `keys`.
    """

    keys: npt.NDArray[np.int32]
    tokens: IntArray
    offsets: IntArray
    prompt_end: IntArray
    is_output: BoolArray

    @staticmethod
    def of(table: TraceTable) -> "LengthRuns":
        """Runs of a table that has any.

        Raises:
            ValueError: an output is reused but the runs do not cover the whole prompt.
        """
        keyed = keyed_runs(table)
        if keyed.run_bounds is not None:
            tokens = np.diff(keyed.run_bounds)
        else:
            assert keyed.block_tokens is not None
            tokens = _block_tokens(keyed.block_tokens, keyed.offsets, table.prompt_tokens)
        is_output_key = np.zeros(int(keyed.keys.max(initial=-1)) + 1, dtype=np.bool_)
        is_output_key[keyed.keys[keyed.prompt_end[keyed.has_output]]] = True
        return LengthRuns(
            keys=keyed.keys,
            tokens=tokens,
            offsets=keyed.offsets,
            prompt_end=keyed.prompt_end,
            is_output=is_output_key[keyed.keys],
        )

    @property
    def has_output(self) -> BoolArray:
        """Whether each request's slice ends with its output. Shape (n,)."""
        has_output: BoolArray = self.offsets[1:] > self.prompt_end
        return has_output

    def prompt_sums(self, values: IntArray) -> IntArray:
        """Sum of the values of each prompt's runs. Shape (n,)."""
        total = np.zeros(len(values) + 1, dtype=np.int64)
        np.cumsum(values, out=total[1:])
        sums: IntArray = total[self.prompt_end] - total[self.offsets[:-1]]
        return sums

    def output_values(self, values: npt.NDArray[np.integer], other: IntArray) -> IntArray:
        """The values of the runs that are a request's own output; `other` in the other rows."""
        has_output = self.has_output
        result = other.copy()
        result[has_output] = values[self.prompt_end[has_output]]
        return result

    def into(self, table: TraceTable, tokens: IntArray) -> TraceTable:
        """`table` with these runs in new lengths.

        Args:
            table: where the runs are from, its lengths already changed.
            tokens: new token count of each run, >= 0; runs of none are left out of the prompts.
        """
        is_kept = tokens > 0
        is_kept[self.prompt_end[self.has_output]] = False
        kept_before = np.append(0, np.cumsum(is_kept))
        runs = PromptRuns(
            ids=self.keys[is_kept], offsets=kept_before[self.offsets], tokens=tokens[is_kept]
        )
        output_run = table.output_run
        if output_run is not None:
            output_run = self.output_values(self.keys, np.full_like(output_run, -1))
        return replace(table, runs=runs, output_run=output_run)


def _block_tokens(block_tokens: int, offsets: IntArray, prompt_tokens: IntArray) -> IntArray:
    """Tokens of every block: all full but the last one of each prompt."""
    counts = np.diff(offsets)
    tokens = np.full(offsets[-1], block_tokens, dtype=np.int64)
    rows = np.flatnonzero(counts)
    last_tokens = prompt_tokens[rows] - (counts[rows] - 1) * block_tokens
    tokens[offsets[1:][rows] - 1] = np.minimum(last_tokens, block_tokens)
    return tokens
