"""Rows of the engine's run table, as a cost ledger receives them."""

from collections.abc import Sequence

import numpy as np

from sim.interfaces import DecodeBatchView, PrefillChunk, RunTable
from sim.recorder import RUN_DTYPE


def decode_run(batch: DecodeBatchView, num_steps: int) -> RunTable:
    """The row of a run of decode-only steps."""
    return _row(batch, num_steps, ())


def mixed_run(batch: DecodeBatchView, chunks: Sequence[PrefillChunk]) -> RunTable:
    """The row of one step with prefill chunks."""
    return _row(batch, 1, chunks)


def _row(batch: DecodeBatchView, num_steps: int, chunks: Sequence[PrefillChunk]) -> RunTable:
    row = np.zeros(1, dtype=RUN_DTYPE)
    row["num_steps"] = num_steps
    row["num_decodes"] = batch.num_requests
    row["context_tokens"] = batch.context_tokens
    row["num_prefills"] = len(chunks)
    row["prefill_tokens"] = sum(chunk.new_tokens for chunk in chunks)
    return row
