"""Tables written at random come back; damaged files are read, or refused in one line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sim.errors import ConfigError, TraceFormatError
from sim.workload import Labels
from tests.unit.traces.same_table import assert_same_table
from tests.unit.traces.tiny_files import (
    AIPERF,
    BURSTGPT,
    CHATS,
    GUIDELLM,
    SERVEGEN,
    VLLM,
    own_parquet,
)
from traces.prefix_compress import compress
from traces.readers.aiperf import AiperfTrace
from traces.readers.burstgpt import BurstGptTrace
from traces.readers.csv_table import CsvTrace
from traces.readers.guidellm import GuideLlmTrace
from traces.readers.parquet_table import ParquetTrace
from traces.readers.reading import FaultFinding, Reading
from traces.readers.servegen import ServeGenTrace
from traces.readers.sharegpt import ShareGptTrace
from traces.readers.vllm_bench import VllmBenchTrace
from traces.schema import PromptRuns, TraceTable
from traces.writers.parquet import write_table


@st.composite
def tables(draw: Any) -> TraceTable:
    """Any trace: each optional column is there or not."""
    n = draw(st.integers(1, 12))

    def ints(low: int, high: int, size: int = n) -> Any:
        return np.array(
            draw(st.lists(st.integers(low, high), min_size=size, max_size=size)), np.int64
        )

    def maybe(column: Any) -> Any:
        return column if draw(st.booleans()) else None

    def labels() -> Labels:
        names = tuple(
            draw(st.lists(st.text(st.characters(codec="utf-8")), unique=True, max_size=4))
        )
        return Labels(ints(-1, len(names) - 1), names)

    seconds = st.floats(0, 1e9, allow_nan=False)
    arrival_s = np.sort(np.array(draw(st.lists(seconds, min_size=n, max_size=n))))
    prompt_tokens = ints(1, 5000)
    runs, output_run = None, None
    if draw(st.booleans()):
        offsets = np.append(0, np.cumsum(ints(0, 4)))
        size = int(offsets[-1])
        ids = ints(0, draw(st.sampled_from([5, 2**31 - 1, 2**62])), size)
        if draw(st.booleans()):
            is_small = not size or ids.max() < 2**31
            runs = PromptRuns(
                ids=ids.astype(np.int32) if is_small else ids, offsets=offsets, block_tokens=16
            )
            prompt_tokens = prompt_tokens + 64
        else:
            tokens = ints(1, 50, size)
            runs = PromptRuns(ids=ids, offsets=offsets, tokens=tokens)
            covered = np.append(0, np.cumsum(tokens))[offsets]
            prompt_tokens = np.maximum(np.diff(covered), 1)
            is_covered = np.diff(covered) > 0
            output_run = maybe(np.where(is_covered, ints(-1, 9), -1))
    return TraceTable(
        arrival_s=arrival_s,
        prompt_tokens=prompt_tokens,
        output_tokens=ints(1, 5000),
        runs=runs,
        output_run=output_run,
        session_id=maybe(ints(-1, 3)),
        turn=maybe(ints(0, 9)),
        parent_id=maybe(ints(-1, n - 1)),
        tenant=maybe(labels()),
        slo_class=maybe(labels()),
        priority=maybe(ints(-9, 9)),
        after=maybe(np.minimum(ints(-1, n - 1), np.arange(n) - 1)),
        delay_s=maybe(np.array(draw(st.lists(seconds, min_size=n, max_size=n)))),
        concurrency=maybe(draw(st.integers(1, 99))),
        provenance=draw(st.dictionaries(st.text(max_size=5), st.integers(), max_size=2)),
    )


@settings(max_examples=60, deadline=None)
@given(tables())
def test_a_table_comes_back_from_our_parquet(tmp_path_factory: Any, table: TraceTable) -> None:
    path = tmp_path_factory.getbasetemp() / "own.parquet"
    write_table(path, table)
    read = ParquetTrace(path).load(0)
    assert_same_table(read, table)
    assert read.provenance["source"] == table.provenance
    finding = FaultFinding(path)
    assert_same_table(ParquetTrace(path).read(finding), table)
    assert finding.faults == []


cells = st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=8)


@settings(max_examples=50, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 10**12), st.integers(1, 10**7), st.integers(1, 10**7), cells),
        min_size=1,
        max_size=12,
    ),
    delimiter=st.sampled_from(",;\t|"),
)
def test_a_csv_file_comes_back(
    tmp_path_factory: Any, rows: list[tuple[int, int, int, str]], delimiter: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "round.csv"
    rows = sorted(rows, key=lambda row: row[0])

    def quoted(cell: str) -> str:
        return '"' + cell.replace('"', '""') + '"'

    lines = [delimiter.join((quoted(w), str(o), str(t), str(p))) for t, p, o, w in rows]
    header = delimiter.join(("who", "output_tokens", "arrival_s", "prompt_tokens"))
    path.write_bytes("\n".join((header, *lines)).encode())
    columns = {name: name for name in ("arrival_s", "prompt_tokens", "output_tokens")}
    table = CsvTrace(
        path, columns={**columns, "tenant": "who"}, time_unit="us", delimiter=delimiter
    ).load(0)
    assert table.arrival_s.tolist() == [(t - rows[0][0]) / 1e6 for t, *_ in rows]
    assert table.prompt_tokens.tolist() == [p for _, p, _, _ in rows]
    assert table.output_tokens.tolist() == [o for _, _, o, _ in rows]
    assert table.tenant is not None
    assert [table.tenant.name_of(i) or "" for i in range(len(rows))] == [w for *_, w in rows]


NAMES = {"arrival_s": "t", "prompt_tokens": "in", "output_tokens": "out", "tenant": "who"}


def _other_parquet() -> bytes:
    sink = pa.BufferOutputStream()
    columns = {"t": [1.0, 2.0], "in": [3, 4], "out": [5, 6], "who": ["a", "b"], "ids": [[1], []]}
    pq.write_table(pa.table(columns), sink, compression="none")
    content: bytes = sink.getvalue().to_pybytes()
    return content


def csv_trace(path: Path) -> Any:
    columns = {
        "arrival_s": "Timestamp",
        "prompt_tokens": "Request tokens",
        "output_tokens": "Response tokens",
        "tenant": "Model",
        "hash_ids": "Total tokens",
    }
    return CsvTrace(path, columns=columns, block_tokens=16)


def parquet_trace(path: Path) -> Any:
    return ParquetTrace(path, columns={**NAMES, "hash_ids": "ids"}, block_tokens=16)


FORMATS: dict[str, tuple[bytes, Callable[[Path], Any]]] = {
    "burstgpt": (BURSTGPT.encode(), lambda path: BurstGptTrace(path, skip_failed=True)),
    "csv": (BURSTGPT.encode(), csv_trace),
    "vllm_bench": (VLLM.encode(), lambda path: VllmBenchTrace(path=path)),
    "guidellm": (GUIDELLM.encode(), lambda path: GuideLlmTrace(path=path)),
    "aiperf": (AIPERF.encode(), lambda path: AiperfTrace(path=path)),
    "sharegpt": (CHATS.encode(), lambda path: ShareGptTrace(path=path, rate_per_s=1.0)),
    "own_parquet": (own_parquet(), ParquetTrace),
    "parquet": (_other_parquet(), parquet_trace),
}
"""Content of a good file, and what reads it."""

damages = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.integers(0, 4),
        st.one_of(
            st.binary(max_size=3),
            st.text(st.sampled_from('0159-+.eE,:;" \t\r\n{}[]né'), max_size=3).map(str.encode),
        ),
    ),
    min_size=1,
    max_size=3,
)
"""Where, as a share of the file, how many bytes are replaced, and by what."""


def damaged(content: bytes, damage: list[tuple[float, int, bytes]]) -> bytes:
    for share, length, inserted in damage:
        where = int(share * len(content))
        content = content[:where] + inserted + content[where + length :]
    return content


def read_or_refused(trace: Any, path: Path) -> None:
    """Any pass ends in a table or in one line, and a strict one fails if faults are found."""
    finding = FaultFinding(path)
    refused = False
    try:
        table = trace.read(finding)
        compress(table).validate()
    except TraceFormatError as error:
        refused = True
        assert "\n" not in error.why
    is_faulty = refused or bool(finding.faults)
    try:
        compress(trace.read(Reading(path))).validate()
        assert not is_faulty
    except TraceFormatError as error:
        assert is_faulty
        assert "\n" not in error.why


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=100, deadline=None)
@given(damage=damages)
@example(damage=[(0.0, 0, b"")])
@example(damage=[(0.0, 0, b'"'), (0.875, 0, b'"')])
def test_a_damaged_file_is_read_or_refused(
    tmp_path_factory: Any, name: str, damage: list[tuple[float, int, bytes]]
) -> None:
    content, trace = FORMATS[name]
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(damaged(content, damage))
    read_or_refused(trace(path), path)


@settings(max_examples=100, deadline=None)
@given(damage=damages, is_lengths=st.booleans())
def test_a_damaged_servegen_directory_is_read_or_refused(
    tmp_path_factory: Any, damage: list[tuple[float, int, bytes]], is_lengths: bool
) -> None:
    """A damaged time may also leave the period outside the files, which is the options' fault."""
    folder = tmp_path_factory.getbasetemp() / "servegen"
    folder.mkdir(exist_ok=True)
    name = "a-dataset.json" if is_lengths else "a-trace.csv"
    for other, text in SERVEGEN.items():
        changed = damaged(text.encode(), damage) if other == name else text.encode()
        (folder / other).write_bytes(changed)
    try:
        read_or_refused(ServeGenTrace(path=folder, rate_per_s=0.1), folder)
    except ConfigError as error:
        assert "\n" not in str(error)
