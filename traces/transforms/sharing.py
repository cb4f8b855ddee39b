"""Transforms of what prompts share and of names."""

from dataclasses import replace

import numpy as np

from sim.workload import Labels
from traces.schema import IdArray, TraceTable
from traces.transforms.record import recorded

_CHUNK = 1 << 22


def strip_prefixes(table: TraceTable) -> TraceTable:
    """No sharing between prompts, nor of outputs; sessions and parents stay."""
    return recorded(replace(table, runs=None, output_run=None), strip_prefixes=True)


def anonymise(table: TraceTable) -> TraceTable:
    """Ids of runs and sessions numbered by first use, tenants named by number.

    What a simulation computes stays the same. Lengths, times and classes of service stay too.
    """
    changes: dict[str, object] = {}
    if table.runs is not None:
        changes |= _renumbered_runs(table)
    if table.session_id is not None:
        number = _by_first_use(table.session_id)
        changes["session_id"] = np.where(table.session_id >= 0, number, -1).astype(np.int64)
    if table.tenant is not None:
        changes["tenant"] = _numbered(table.tenant)
    return recorded(replace(table, **changes), anonymise=True)  # type: ignore[arg-type]


def _renumbered_runs(table: TraceTable) -> dict[str, object]:
    runs, output_run = table.runs, table.output_run
    assert runs is not None
    if output_run is None:
        return {"runs": replace(runs, ids=_by_first_use(runs.ids))}
    has_output = output_run >= 0
    where = runs.offsets[1:][has_output]
    number = _by_first_use(np.insert(runs.ids.astype(np.int64), where, output_run[has_output]))
    at_output = where + np.arange(len(where))
    new_output = np.full_like(output_run, -1)
    new_output[has_output] = number[at_output]
    is_prompt = np.ones(len(number), dtype=np.bool_)
    is_prompt[at_output] = False
    return {"runs": replace(runs, ids=number[is_prompt]), "output_run": new_output}


def _by_first_use(ids: IdArray) -> IdArray:
    """Rank of each id by its first place, ids below 0 left out (their rank is undefined)."""
    if not len(ids):
        return ids
    if int(ids.max()) > 4 * len(ids) + (1 << 20):
        ids = np.where(ids >= 0, np.unique(ids, return_inverse=True)[1], -1)
    first = np.full(max(int(ids.max()), 0) + 1, -1, dtype=np.int64)
    starts = range(0, len(ids), _CHUNK)
    for start in reversed(starts):  # of equal ids the last written stays
        part = ids[start : start + _CHUNK]
        place = np.flatnonzero(part >= 0)[::-1]
        first[part[place]] = start + place
    known = np.flatnonzero(first >= 0)
    rank = np.zeros(len(first), dtype=np.int32)  # there are far fewer than 2**31 ids
    rank[known[np.argsort(first[known])]] = np.arange(len(known))
    ranks = np.empty(len(ids), dtype=np.int32)
    for start in starts:
        part = ids[start : start + _CHUNK]
        ranks[start : start + _CHUNK] = rank[np.maximum(part, 0)]
    return ranks


def _numbered(labels: Labels) -> Labels:
    """Names by number in order of first use; names that no row has are left out."""
    codes = np.where(labels.codes >= 0, _by_first_use(labels.codes), -1).astype(np.int64)
    num_names = int(codes.max(initial=-1)) + 1
    return Labels(codes, tuple(f"tenant_{k}" for k in range(num_names)))
