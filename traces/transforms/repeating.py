"""Rows that occur several times and share with their repetitions no more than all prompts share.

A repetition is a part of the new trace in which no old row occurs twice. Its ids of runs and
sessions are its own, and a row that continues or waits for another one finds it in the same part.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sim.workload import IntArray
from traces.schema import IdArray, PromptRuns, TraceTable


def repeat_rows(table: TraceTable, rows: IntArray, part: IntArray, copy: IntArray) -> TraceTable:
    """The given rows in that order, with ids of their own in each copy.

    Args:
        table: the trace.
        rows: old row of each new one. Shape (m,).
        part: part of the new trace that each new row belongs to, >= 0. Shape (m,).
        copy: number of the copy of its ids that each new row uses, from 0; the ids of copy 0 are
            those of the trace. Shape (m,).
    """
    taken = table.take(rows)
    find = _finder(table.num_requests, rows, part)
    session_id = taken.session_id
    if session_id is not None:
        num_sessions = int(session_id.max(initial=-1)) + 1
        session_id = np.where(session_id >= 0, session_id + copy * num_sessions, -1)
    runs, output_run = _own_runs(table, taken, copy)
    return replace(
        taken,
        runs=runs,
        output_run=output_run,
        session_id=session_id,
        parent_id=None if table.parent_id is None else find(table.parent_id[rows], part),
        after=None if table.after is None else find(table.after[rows], part),
    )


def _finder(
    num_rows: int, rows: IntArray, part: IntArray
) -> Callable[[IntArray, IntArray], IntArray]:
    """From (old row or -1, part) to the new row, -1 where that part does not have it."""
    key = part * num_rows + rows
    order = np.argsort(key, kind="stable")
    ranked = key[order]

    def find(old: IntArray, of_part: IntArray) -> IntArray:
        wanted = of_part * num_rows + old
        place = np.searchsorted(ranked, wanted).clip(max=len(ranked) - 1)
        is_there = (old >= 0) & (ranked[place] == wanted)
        return np.where(is_there, order[place], -1)

    return find


def _own_runs(
    table: TraceTable, taken: TraceTable, copy: IntArray
) -> tuple[PromptRuns | None, IntArray | None]:
    old, runs, outputs = table.runs, taken.runs, taken.output_run
    if old is None or runs is None:
        return None, outputs
    ids, outputs, num_ids = _small_ids(runs.ids, outputs, int(copy.max(initial=0)) + 1)
    shift = (copy * num_ids).astype(ids.dtype)
    renamed = ids + np.repeat(shift, np.diff(runs.offsets))
    for place in range(num_common_runs(table, old)):
        where = runs.offsets[:-1] + place
        renamed[where] = ids[where]
    if outputs is not None:
        outputs = np.where(outputs >= 0, outputs + copy * num_ids, -1)
    return replace(runs, ids=renamed), outputs


def _small_ids(
    ids: IdArray, output_run: IntArray | None, copies: int
) -> tuple[IdArray, IntArray | None, int]:
    """Ids that leave room for so many copies, those of outputs, and how many there are."""
    highest = max(
        int(ids.max(initial=-1)), -1 if output_run is None else int(output_run.max(initial=-1))
    )
    if (highest + 1) * copies >= 2**62:
        everything = ids if output_run is None else np.concatenate((ids, output_run))
        known, ranks = np.unique(everything, return_inverse=True)
        if output_run is not None:
            output_run = np.where(output_run >= 0, ranks[len(ids) :], -1)
        ids, highest = ranks[: len(ids)].astype(np.int64), len(known)
    fits = ids.dtype == np.int32 and (highest + 1) * copies < 2**31
    return (ids if fits else ids.astype(np.int64)), output_run, highest + 1


def num_common_runs(table: TraceTable, runs: PromptRuns) -> int:
    """Runs that all prompts begin with, as long in all of them."""
    starts = runs.offsets[:-1]
    shortest = int(np.diff(runs.offsets).min())
    for place in range(shortest):
        ids = runs.ids[starts + place]
        tokens: npt.NDArray[np.int64]
        if runs.tokens is not None:
            tokens = runs.tokens[starts + place]
        else:
            assert runs.block_tokens is not None
            left = table.prompt_tokens - place * runs.block_tokens
            tokens = np.minimum(left, runs.block_tokens)
        if (ids != ids[0]).any() or (tokens != tokens[0]).any():
            return place
    return shortest
