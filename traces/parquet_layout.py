"""Our own parquet layout of a `TraceTable`: a row per request, a column per column of the table.

The runs of a prompt are lists (`run_ids`, and `run_tokens` unless all blocks have one size); what
belongs to the whole table is a JSON document in the schema's metadata. A column is there exactly
if the table has it, under the same name.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from traces.schema import TraceTable

METADATA_KEY = b"flocksim.trace"

VERSION = 1
"""Version of the layout; a reader refuses later ones."""

REQUIRED = ("arrival_s", "prompt_tokens", "output_tokens")

FLOATS = ("arrival_s", "delay_s")

INTS = (
    "prompt_tokens",
    "output_tokens",
    "output_run",
    "session_id",
    "turn",
    "parent_id",
    "priority",
    "after",
)

LABELS = ("tenant", "slo_class")

LISTS = ("run_ids", "run_tokens")

COLUMNS = (*FLOATS, *INTS, *LABELS, *LISTS)
"""Every column, in the order of a file that has them all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredHeader:
    """What a file says about the whole table.

    Attributes:
        num_ids: run ids over all prompts; None where the table has no runs.
        block_tokens: tokens per run, None where every run has its own count.
        concurrency: as in `TraceTable`.
        names: distinct labels of `tenant` and `slo_class`, in the order of their codes.
        provenance: as in `TraceTable`.
        version: of the layout.
    """

    num_ids: int | None
    block_tokens: int | None
    concurrency: int | None
    names: Mapping[str, list[str]]
    provenance: Mapping[str, Any]
    version: int = VERSION

    def to_json(self) -> str:
        """The document of the metadata."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @staticmethod
    def from_json(text: bytes) -> "StoredHeader":
        """The header that a document holds.

        Raises:
            ValueError: it is not such a document; says what is wrong.
        """
        try:
            values = json.loads(text)
        except RecursionError:
            raise ValueError("is nested too deeply") from None
        if not isinstance(values, dict):
            raise ValueError("must be a JSON object")
        version = values.get("version")
        if type(version) is not int or version < 1:
            raise ValueError("has no version")
        if version > VERSION:
            raise ValueError(f"has version {version}, this reader knows up to {VERSION}")
        names = [item.name for item in fields(StoredHeader)]
        if set(values) != set(names):
            raise ValueError(f"must have exactly {', '.join(names)}")
        header = StoredHeader(**values)
        header._refuse_wrong_types()
        return header

    def _refuse_wrong_types(self) -> None:
        for key, low in (("num_ids", 0), ("block_tokens", 1), ("concurrency", 1)):
            value = getattr(self, key)
            if value is not None and (type(value) is not int or not low <= value < 2**62):
                raise ValueError(f"has {key} {value!r:.40}, must be null or an integer >= {low}")
        is_named = isinstance(self.names, dict) and set(self.names) <= set(LABELS)
        if not is_named or not all(map(_are_distinct_texts, self.names.values())):
            raise ValueError("has names that are not lists of distinct labels")
        if not isinstance(self.provenance, dict):
            raise ValueError("has a provenance that is no object")


def _are_distinct_texts(names: Any) -> bool:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return False
    return len(set(names)) == len(names)


def header_of(table: TraceTable) -> StoredHeader:
    """The header that `table` is stored with."""
    labels = {name: getattr(table, name) for name in LABELS}
    return StoredHeader(
        num_ids=None if table.runs is None else len(table.runs.ids),
        block_tokens=None if table.runs is None else table.runs.block_tokens,
        concurrency=table.concurrency,
        names={name: list(column.names) for name, column in labels.items() if column is not None},
        provenance=dict(table.provenance),
    )


def columns_of(table: TraceTable) -> tuple[str, ...]:
    """Names of the columns that `table` is stored in, in order."""
    is_there = {name: getattr(table, name) is not None for name in (*FLOATS, *INTS, *LABELS)}
    is_there["run_ids"] = table.runs is not None
    is_there["run_tokens"] = table.runs is not None and table.runs.tokens is not None
    return tuple(name for name in COLUMNS if is_there[name])


def arrow_type(name: str, id_bytes: int = 8) -> Any:
    """Arrow type of a column; run ids have 4 or 8 bytes."""
    import pyarrow as pa

    if name in FLOATS:
        return pa.float64()
    if name in LABELS:
        return pa.string()
    if name in LISTS:
        element = pa.int32() if name == "run_ids" and id_bytes == 4 else pa.int64()
        return pa.list_(pa.field("element", element, nullable=False))
    return pa.int64()
