"""Several traces as one: rows by arrival, prompts of different traces share nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sim.errors import ConfigError
from sim.workload import Labels
from traces.merge_runs import first_ids, joined_runs, small_ids
from traces.schema import TraceTable


@dataclass(frozen=True, slots=True, kw_only=True)
class PartLabels:
    """What all rows of one trace get; None leaves what they have.

    Attributes:
        tenant: customer.
        slo_class: service class.
        priority: smaller is more urgent.
    """

    tenant: str | None = None
    slo_class: str | None = None
    priority: int | None = None


def merge(tables: Sequence[TraceTable], labels: Sequence[PartLabels] | None = None) -> TraceTable:
    """All rows of all tables by arrival, equal times in the order of the tables.

    Run ids and session ids of different tables become disjoint. A column that only some tables have
    gets -1 in the rows of the others (session, parent, label, `after`, output run), or 0 (turn,
    priority, delay). Runs of blocks stay blocks if all tables agree on their tokens.

    Args:
        tables: the traces, at least one.
        labels: labels of each, None for none.

    Raises:
        ConfigError: a table has a fixed concurrency, which is one of a whole trace.
        ValueError: there is no table, or not one `labels` for each.
    """
    if not tables:
        raise ValueError("nothing to merge")
    if labels is not None:
        tables = [_labelled(table, own) for table, own in zip(tables, labels, strict=True)]
    for table in tables:
        if table.concurrency is not None:
            raise ConfigError(
                f"a trace with a fixed concurrency ({table.concurrency} users) cannot be merged "
                "with others: its requests have no times of their own; give it arrivals at a rate"
            )
    joined = _concatenated(tables)
    order = np.argsort(joined.arrival_s, kind="stable")
    if (np.diff(order) == 1).all():
        return joined
    return joined.take(order)


def _labelled(table: TraceTable, own: PartLabels) -> TraceTable:
    columns: dict[str, Any] = {}
    for name in ("tenant", "slo_class"):
        label = getattr(own, name)
        if label is not None:
            columns[name] = Labels(np.zeros(table.num_requests, dtype=np.int64), (label,))
    if own.priority is not None:
        columns["priority"] = np.full(table.num_requests, own.priority, dtype=np.int64)
    return replace(table, **columns)


def _concatenated(tables: Sequence[TraceTable]) -> TraceTable:
    """All rows, table after table."""
    first_row = np.cumsum([0, *(table.num_requests for table in tables)]).tolist()
    sessions = [small_ids(table.session_id) for table in tables]
    tables = [replace(t, session_id=own) for t, own in zip(tables, sessions, strict=True)]
    runs, output_run = joined_runs(tables)
    return TraceTable(
        arrival_s=np.concatenate([table.arrival_s for table in tables]),
        prompt_tokens=np.concatenate([table.prompt_tokens for table in tables]),
        output_tokens=np.concatenate([table.output_tokens for table in tables]),
        runs=runs,
        output_run=output_run,
        session_id=_joined(tables, "session_id", -1, first_ids(sessions)),
        turn=_joined(tables, "turn", 0),
        parent_id=_joined(tables, "parent_id", -1, first_row),
        tenant=_joined_labels(tables, "tenant"),
        slo_class=_joined_labels(tables, "slo_class"),
        priority=_joined(tables, "priority", 0),
        after=_joined(tables, "after", -1, first_row),
        delay_s=_joined(tables, "delay_s", 0.0),
        provenance={
            "format": "merge",
            "sha256": None,
            "num_rows": first_row[-1],
            "options": {},
            "parts": [dict(table.provenance) for table in tables],
        },
    )


def _joined(
    tables: Sequence[TraceTable], name: str, filler: float, first: Sequence[int] | None = None
) -> Any:
    """A column over all tables; `first` is added to each table's values >= 0."""
    columns = [getattr(table, name) for table in tables]
    if all(column is None for column in columns):
        return None
    for i, table in enumerate(tables):
        if columns[i] is None:
            columns[i] = np.full(table.num_requests, filler)
            columns[i] = columns[i].astype(np.float64 if name == "delay_s" else np.int64)
        elif first is not None:
            columns[i] = np.where(columns[i] < 0, -1, columns[i] + first[i])
    return np.concatenate(columns)


def _joined_labels(tables: Sequence[TraceTable], name: str) -> Labels | None:
    columns: list[Labels | None] = [getattr(table, name) for table in tables]
    if all(column is None for column in columns):
        return None
    code_of: dict[str, int] = {}
    codes = []
    for table, column in zip(tables, columns, strict=True):
        names = () if column is None else column.names
        # The extra last entry answers for -1.
        new = np.array([*(code_of.setdefault(text, len(code_of)) for text in names), -1])
        codes.append(new[np.full(table.num_requests, -1) if column is None else column.codes])
    return Labels(np.concatenate(codes), tuple(code_of))
