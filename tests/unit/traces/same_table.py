"""Equality of traces, column by column, types included."""

from dataclasses import fields
from typing import Any

import numpy as np

from sim.workload import Labels
from traces.schema import PromptRuns, TraceTable


def assert_same_table(table: TraceTable, other: TraceTable) -> None:
    """All but the provenance is equal."""
    for field in fields(TraceTable):
        if field.name != "provenance":
            _assert_same(field.name, getattr(table, field.name), getattr(other, field.name))


def _assert_same(name: str, value: Any, other: Any) -> None:
    assert type(value) is type(other), name
    if isinstance(value, np.ndarray):
        assert value.dtype == other.dtype, name
        assert value.tolist() == other.tolist(), name
    elif isinstance(value, Labels):
        assert value.names == other.names, name
        assert value.codes.tolist() == other.codes.tolist(), name
    elif isinstance(value, PromptRuns):
        for part in ("ids", "offsets", "block_tokens", "tokens"):
            _assert_same(f"{name}.{part}", getattr(value, part), getattr(other, part))
    else:
        assert value == other, name
