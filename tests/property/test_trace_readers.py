"""Files written at random come back as they were written; any bytes are read or refused."""

import gzip
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.errors import TraceFormatError
from traces.options import MAX_TOKENS
from traces.prefix_compress import compress
from traces.readers.agent import AgentTrace
from traces.readers.azure import HEADER, AzureTrace, read_azure
from traces.readers.mooncake import MooncakeTrace, read_mooncake
from traces.readers.qwen_bailian import QwenBailianTrace
from traces.readers.reading import FaultFinding

lengths = st.integers(1, MAX_TOKENS)


@settings(max_examples=50, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 10**9), st.integers(1, 4000), lengths), min_size=1, max_size=20
    ),
    block_tokens=st.sampled_from([16, 512]),
)
def test_a_mooncake_file_comes_back(
    tmp_path_factory: Any, rows: list[tuple[int, int, int]], block_tokens: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "round.jsonl"
    rows = sorted(rows, key=lambda r: r[0])
    ids = [[7 * k for k in range(-(-prompt // block_tokens))] for _, prompt, _ in rows]
    lines = [
        json.dumps({"timestamp": t, "input_length": p, "output_length": o, "hash_ids": i})
        for (t, p, o), i in zip(rows, ids, strict=True)
    ]
    path.write_text("\n".join(lines))
    table = read_mooncake(path, block_tokens=block_tokens)
    assert table.arrival_s.tolist() == [t / 1000 for t, _, _ in rows]
    assert table.prompt_tokens.tolist() == [p for _, p, _ in rows]
    assert table.output_tokens.tolist() == [o for _, _, o in rows]
    assert table.runs is not None
    assert table.runs.ids.tolist() == [i for row in ids for i in row]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**12), lengths, lengths), min_size=1, max_size=20))
def test_an_azure_file_comes_back(tmp_path_factory: Any, rows: list[tuple[int, int, int]]) -> None:
    """Times are microseconds after midnight; whole seconds are written without a fraction."""
    path = tmp_path_factory.getbasetemp() / "round.csv"
    rows = sorted(rows, key=lambda r: r[0])
    midnight = datetime(2023, 11, 16)
    lines = [f"{midnight + timedelta(microseconds=t)},{p},{o}" for t, p, o in rows]
    path.write_text("\n".join((HEADER, *lines)))
    table = read_azure(path)
    assert table.arrival_s.tolist() == [(t - rows[0][0]) * 1000 / 1e9 for t, _, _ in rows]
    assert table.prompt_tokens.tolist() == [p for _, p, _ in rows]
    assert table.output_tokens.tolist() == [o for _, _, o in rows]


@settings(max_examples=300, deadline=None)
@given(
    line=st.integers(0, 2),
    where=st.integers(0, 60),
    length=st.integers(0, 3),
    text=st.text(st.sampled_from('0159-+.eE,:" \t\r\n{}[]Zné'), max_size=3),
)
def test_a_damaged_file_is_read_or_refused_with_a_line_but_never_crashes(
    tmp_path_factory: Any, line: int, where: int, length: int, text: str
) -> None:
    folder: Path = tmp_path_factory.getbasetemp()
    azure = [HEADER, "2023-11-16 18:17:04.0319600,31,8", "2023-11-16 18:17:05.0319600,31,8"]
    row = '{"timestamp": 5, "input_length": 9, "output_length": 1, "hash_ids": [1]}'
    for name, read, lines in (
        ("damaged.csv", read_azure, azure),
        ("damaged.jsonl", read_mooncake, [row] * 3),
    ):
        damaged = list(lines)
        damaged[line] = damaged[line][:where] + text + damaged[line][where + length :]
        content = "\n".join(damaged)
        (folder / name).write_bytes(content.encode())
        num_rows = content.count("\n") + (name == "damaged.jsonl") - content.endswith("\n")
        try:
            assert read(folder / name).num_requests == num_rows
        except TraceFormatError as error:
            assert 1 <= error.line <= content.count("\n") + 1
            assert error.why


BLOCKS = b'"input_length": 20, "output_length": 30, "hash_ids": [1, 2]}\n'

FILES: dict[str, tuple[Callable[[Path], Any], bytes]] = {
    "azure": (
        lambda path: AzureTrace(path, sort=True),
        f"{HEADER}\n2023-11-16 18:17:04.03,31,8\n2024-05-10 00:00:05+00:00,31,8\n".encode(),
    ),
    "mooncake": (
        lambda path: MooncakeTrace(path, block_tokens=16),
        b"".join(b'{"timestamp": %d, ' % k + BLOCKS for k in (0, 27, 3000)),
    ),
    "qwen_bailian": (
        lambda path: QwenBailianTrace(path, sort=True),
        b"".join(
            b'{"chat_id": %d, "parent_chat_id": %d, "timestamp": %d, "type": "text", "turn": 1, '
            % (chat, parent, chat)
            + BLOCKS.replace(b"20", b"%d" % (20 + 5 * chat))
            for chat, parent in ((0, -1), (1, 0), (2, 1))
        ),
    ),
    "agent": (
        lambda path: AgentTrace(path=path, session_rate_per_s=1.0),
        b"".join(
            b'{"agent": "a", "session_id": "%c", "call": %d, "timestamp": 5, ' % (name, call)
            + BLOCKS
            for name, call in ((120, 0), (120, 1), (121, 0))
        ),
    ),
}


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_any_bytes_are_read_or_refused_in_one_line(
    tmp_path_factory: Any, name: str, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / f"{name}.bytes"
    source, good = FILES[name]
    path.write_bytes(data.draw(damaged(good), label="content"))
    is_refused = False
    try:
        strict = source(path).load(0)
        compress(strict).validate()
    except TraceFormatError as error:
        is_refused = True
        assert error.line >= 0
        assert "\n" not in str(error)
    finding = FaultFinding(path)
    try:
        table = source(path).read(finding)
    except TraceFormatError:
        assert is_refused
        return
    assert bool(finding.faults) == is_refused
    workload = compress(table)
    workload.validate()
    if not is_refused:
        assert workload.num_requests == strict.num_requests


@st.composite
def damaged(draw: st.DrawFn, good: bytes) -> bytes:
    """A good file with some bytes replaced, dropped or doubled, packed or cut; or any bytes."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=60))
    content = good
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(content)))
        length = draw(st.integers(0, 12))
        piece = draw(
            st.binary(max_size=3)
            | st.sampled_from(
                [b'"', b"0", b"-", b"9" * 30, b"{", b"}\n", b"[", b",", b"\r\n", b"1e9"]
            )
            | st.just(content[start : start + length] * 2)
        )
        content = content[:start] + piece + content[start + length :]
    if draw(st.integers(0, 5)) == 0:
        content = gzip.compress(content)
        content = content[: draw(st.integers(0, len(content)))]
    return content
