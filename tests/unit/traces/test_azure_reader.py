"""Azure files: absolute times, and one exact line for every way to break a row."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from sim.errors import ConfigError, TraceFormatError
from traces.readers import text_file
from traces.readers.azure import HEADER, AzureTrace, read_azure

GOOD = "2023-11-16 18:17:04.0319600,3180,8"


def write(folder: Path, *rows: str, header: str = HEADER, newline: str = "\n") -> Path:
    path = folder / "t.csv"
    path.write_bytes(newline.join((header, *rows)).encode())
    return path


def test_arrival_is_relative_to_the_first_row_to_100_ns(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "2023-11-16 23:59:59.9999999,4808,10",
        "2023-11-17 00:00:00,110,27",
        "2023-11-17 00:00:00.0000001,1,1",
    )
    table = read_azure(path)
    assert table.arrival_s.tolist() == [0.0, 1e-7, 2e-7]
    assert table.prompt_tokens.tolist() == [4808, 110, 1]
    assert table.output_tokens.tolist() == [10, 27, 1]
    assert table.runs is None


@pytest.mark.parametrize("zone", ["+00:00", "Z"])
def test_times_may_name_utc_as_the_2024_files_do(tmp_path: Path, zone: str) -> None:
    path = write(
        tmp_path, f"2024-05-10 00:00:00.009930{zone},5,6", f"2024-05-10 00:00:01{zone},7,8"
    )
    assert read_azure(path).arrival_s.tolist() == [0.0, 0.99007]


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\r"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_either_newline_and_any_ending_will_do(tmp_path: Path, newline: str, end: str) -> None:
    path = write(tmp_path, GOOD, GOOD + end, newline=newline)
    assert read_azure(path).prompt_tokens.tolist() == [3180, 3180]


def test_provenance_names_format_digest_rows_and_options(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD, GOOD)
    assert AzureTrace(str(path)).load(seed=1).provenance == {
        "format": "azure",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "num_rows": 2,
        "options": {"sort": False},
    }


def test_a_file_read_in_many_pieces_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [f"2023-11-16 18:17:{i:02}.5,{100 + i},{i + 1}" for i in range(60)]
    path = write(tmp_path, *rows)
    whole = read_azure(path)
    for piece_bytes in (1, 35, 36, 100):
        monkeypatch.setattr(text_file, "PIECE_BYTES", piece_bytes)
        pieces = read_azure(path)
        assert pieces.arrival_s.tolist() == whole.arrival_s.tolist() == list(range(60))
        assert pieces.prompt_tokens.tolist() == whole.prompt_tokens.tolist()


LENGTH_RANGE = "must be an integer from 1 to 10,000,000"
TIME_FORM = "must be like 2023-11-16 18:17:03.9799600"
TIME = "2023-11-16 18:17:04.5"

BAD_ROWS = {
    "blank": ("", ["blank line", HEADER]),
    "two fields": (f"{TIME},5", ["2 fields", "must be 3"]),
    "four fields": (f"{GOOD},1", ["4 fields", "must be 3"]),
    "date only": ("2023-11-16,5,6", ["TIMESTAMP '2023-11-16'", TIME_FORM]),
    "no such month": ("2023-13-16 18:17:04,5,6", ["'2023-13-16 18:17:04'", TIME_FORM]),
    "no such day": ("2023-02-30 18:17:04,5,6", ["'2023-02-30 18:17:04'", TIME_FORM]),
    "no such second": ("2023-02-03 18:17:99,5,6", ["'2023-02-03 18:17:99'", TIME_FORM]),
    "far year": ("9999-02-03 18:17:00,5,6", ["'9999-02-03 18:17:00'", TIME_FORM]),
    "too many digits": (TIME + "0" * 9 + ",5,6", ["TIMESTAMP", TIME_FORM]),
    "another zone": (TIME + "+02:00,5,6", ["+02:00'", TIME_FORM]),
    "a number as time": ("12.5,5,6", ["TIMESTAMP '12.5'", TIME_FORM]),
    "NaN as time": ("nan,5,6", ["TIMESTAMP 'nan'", TIME_FORM]),
    "no time": (",5,6", ["TIMESTAMP ''", TIME_FORM]),
    "leading space": (f" {GOOD}", ["TIMESTAMP ' 2023", TIME_FORM]),
    "foreign digits": ("２023-11-16 18:17:04,5,6", ["TIMESTAMP", TIME_FORM]),
    "negative prompt": (f"{TIME},-5,6", ["ContextTokens '-5'", LENGTH_RANGE]),
    "zero prompt": (f"{TIME},0,6", ["ContextTokens 0", LENGTH_RANGE]),
    "absurd prompt": (f"{TIME},10000001,6", ["ContextTokens 10000001", LENGTH_RANGE]),
    "endless prompt": (f"{TIME},{'9' * 30},6", ["ContextTokens '9999", LENGTH_RANGE]),
    "fractional prompt": (f"{TIME},5.0,6", ["ContextTokens '5.0'", LENGTH_RANGE]),
    "text prompt": (f"{TIME},five,6", ["ContextTokens 'five'", LENGTH_RANGE]),
    "hexadecimal prompt": (f"{TIME},0x10,6", ["ContextTokens '0x10'", LENGTH_RANGE]),
    "missing prompt": (f"{TIME},,6", ["ContextTokens ''", LENGTH_RANGE]),
    "boolean prompt": (f"{TIME},True,6", ["ContextTokens 'True'", LENGTH_RANGE]),
    "superscript prompt": (f"{TIME},²,6", ["ContextTokens '²'", LENGTH_RANGE]),
    "quoted prompt": (f'{TIME},"5",6', ["ContextTokens '\"5\"'", LENGTH_RANGE]),
    "no output": (f"{TIME},5,0", ["GeneratedTokens 0", LENGTH_RANGE]),
    "negative output": (f"{TIME},5,-1", ["GeneratedTokens '-1'", LENGTH_RANGE]),
    "NaN output": (f"{TIME},5,nan", ["GeneratedTokens 'nan'", LENGTH_RANGE]),
    "trailing space": (f"{GOOD} ", ["GeneratedTokens '8 '", LENGTH_RANGE]),
}


@pytest.mark.parametrize("piece_bytes", [1 << 24, 40], ids=["one piece", "many pieces"])
@pytest.mark.parametrize(("text", "pieces"), BAD_ROWS.values(), ids=BAD_ROWS.keys())
def test_a_bad_row_is_named_by_line_value_and_what_is_allowed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    pieces: list[str],
    piece_bytes: int,
) -> None:
    monkeypatch.setattr(text_file, "PIECE_BYTES", piece_bytes)
    path = write(tmp_path, GOOD, GOOD, GOOD, text, GOOD, "")
    with pytest.raises(TraceFormatError) as caught:
        read_azure(path)
    assert (caught.value.path, caught.value.line) == (str(path), 5)
    for piece in pieces:
        assert piece in caught.value.why
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "header",
    ["", "TIMESTAMP,ContextTokens", f"{HEADER},Model", HEADER.lower(), GOOD, "Timestamp,A,B"],
)
def test_another_header_is_refused_on_line_1(tmp_path: Path, header: str) -> None:
    with pytest.raises(TraceFormatError) as caught:
        read_azure(write(tmp_path, GOOD, header=header))
    assert caught.value.line == 1
    assert caught.value.why == f"header {header!r}: must be {HEADER}"


@pytest.mark.parametrize("newline", ["\n", ""])
def test_a_header_without_rows_is_refused(tmp_path: Path, newline: str) -> None:
    with pytest.raises(TraceFormatError) as caught:
        read_azure(write(tmp_path, header=HEADER + newline))
    assert caught.value.line == 1
    assert "no rows after the header" in caught.value.why


def test_an_empty_file_and_a_file_in_utf16_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"")
    with pytest.raises(TraceFormatError, match="is empty"):
        read_azure(path)
    path.write_bytes(f"{HEADER}\n{GOOD}\n".encode("utf-16"))
    with pytest.raises(TraceFormatError, match="is not UTF-8") as caught:
        read_azure(path)
    assert caught.value.line == 1


def test_disorder_of_100_ns_is_refused_or_sorted(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "2023-11-16 18:17:04,1,1",
        "2023-11-16 18:17:04.0000003,2,2",
        "2023-11-16 18:17:04.0000002,3,3",
    )
    with pytest.raises(TraceFormatError) as caught:
        read_azure(path)
    assert caught.value.line == 4
    assert "1e-07 s before the line above" in caught.value.why
    assert "trace.sort=true" in caught.value.why
    table = AzureTrace(path, sort=True).load(seed=0)
    assert table.prompt_tokens.tolist() == [1, 3, 2]
    assert table.arrival_s.tolist() == [0.0, 2e-7, 3e-7]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": 5}, "trace.path=5: must be the path of a trace file"),
        ({"sort": 1}, "trace.sort=1: must be true or false"),
    ],
)
def test_bad_options_are_refused_when_the_trace_is_described(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        AzureTrace(**{"path": "t.csv", **options})
    assert str(caught.value) == message
