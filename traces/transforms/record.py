"""What a transform leaves in the provenance."""

from dataclasses import replace
from typing import Any

from traces.schema import TraceTable


def recorded(table: TraceTable, **done: Any) -> TraceTable:
    """`table` with the names and values of what was done to it."""
    transforms = {**table.provenance.get("transforms", {}), **done}
    return replace(table, provenance={**table.provenance, "transforms": transforms})
