"""Files written at random come back as they were written."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sim.errors import TraceFormatError
from traces.options import MAX_TOKENS
from traces.readers.azure import HEADER, read_azure
from traces.readers.mooncake import read_mooncake

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
