"""Text files in pieces: whole lines whatever the piece, packed or not, one line for every fault."""

import gzip
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from sim.errors import TraceFormatError
from traces.readers import text_file
from traces.readers.reading import Reading
from traces.readers.text_file import TextFile

TEXT = b"one\ntwo\n\nfour \xc3\xa9\nlast"
LINES = [(1, b"one\n"), (2, b"two\n"), (3, b"\n"), (4, b"four \xc3\xa9\n"), (5, b"last\n")]


def zstd(data: bytes) -> bytes:
    import pyarrow as pa

    packed = pa.compress(data, codec="zstd", asbytes=True)
    assert isinstance(packed, bytes)
    return packed


PACKERS: dict[str, Callable[[bytes], bytes]] = {"plain": bytes, "gzip": gzip.compress, "zstd": zstd}


def write(folder: Path, data: bytes) -> Path:
    path = folder / "file"
    path.write_bytes(data)
    return path


def refusal(path: Path) -> TraceFormatError:
    with pytest.raises(TraceFormatError) as caught:
        list(TextFile(Reading(path)).lines())
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
@pytest.mark.parametrize("piece_bytes", [1, 3, 7, 1 << 24])
def test_lines_and_digest_are_those_of_the_content(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pack: Callable[[bytes], bytes],
    piece_bytes: int,
) -> None:
    monkeypatch.setattr(text_file, "PIECE_BYTES", piece_bytes)
    file = TextFile(Reading(write(tmp_path, pack(TEXT))))
    assert list(file.lines()) == LINES
    assert file.sha256 == hashlib.sha256(TEXT).hexdigest()


@pytest.mark.parametrize("piece_bytes", [1, 3, 1 << 24])
def test_pieces_are_whole_lines_with_the_number_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    monkeypatch.setattr(text_file, "PIECE_BYTES", piece_bytes)
    pieces = list(TextFile(Reading(write(tmp_path, TEXT))).pieces())
    assert b"".join(piece for _, piece in pieces) == TEXT + b"\n"
    assert all(piece.endswith(b"\n") for _, piece in pieces)
    before = b""
    for line, piece in pieces:
        assert line == before.count(b"\n") + 1
        before += piece


def test_a_byte_order_mark_is_read_past_and_part_of_the_digest(tmp_path: Path) -> None:
    file = TextFile(Reading(write(tmp_path, b"\xef\xbb\xbf" + TEXT)))
    assert file.read() == TEXT + b"\n"
    assert file.sha256 == hashlib.sha256(b"\xef\xbb\xbf" + TEXT).hexdigest()


@pytest.mark.parametrize("piece_bytes", [1, 1 << 24])
@pytest.mark.parametrize("data", [b"", b"\n", b" ", b" \n\t\n  "])
def test_a_file_of_blanks_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, piece_bytes: int
) -> None:
    monkeypatch.setattr(text_file, "PIECE_BYTES", piece_bytes)
    error = refusal(write(tmp_path, data))
    assert (error.line, error.why) == (0, "is empty, must have at least one row")


@pytest.mark.parametrize("piece_bytes", [1, 1 << 24])
def test_blank_lines_before_the_first_row_keep_their_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    monkeypatch.setattr(text_file, "PIECE_BYTES", piece_bytes)
    lines = list(TextFile(Reading(write(tmp_path, b"\n \nx"))).lines())
    assert lines == [(1, b"\n"), (2, b" \n"), (3, b"x\n")]


@pytest.mark.parametrize("piece_bytes", [1, 4, 1 << 24])
def test_a_byte_that_is_no_utf8_is_named_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    monkeypatch.setattr(text_file, "PIECE_BYTES", piece_bytes)
    error = refusal(write(tmp_path, b"one\n\xc3\xa9\nthree \xff\n"))
    assert (error.line, error.why) == (3, "byte 0xff is not UTF-8 text")


@pytest.mark.parametrize("pack", [gzip.compress, zstd], ids=["gzip", "zstd"])
def test_a_packed_file_that_was_cut_is_refused(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    packed = pack(TEXT * 1000)
    error = refusal(write(tmp_path, packed[:-4]))
    assert error.line == 0
    assert error.why.startswith(("cannot be unpacked: ", "cannot be read: "))


def test_a_line_that_cannot_be_a_row_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_file, "PIECE_BYTES", 8)
    monkeypatch.setattr(text_file, "MAX_LINE_BYTES", 20)
    error = refusal(write(tmp_path, b"a\nb\n" + b"x" * 40))
    assert (error.line, error.why) == (3, "line is too long to be a row")
    blank = list(TextFile(Reading(write(tmp_path, b"\n" * 60))).lines())
    assert blank == [(line, b"\n") for line in range(1, 61)]


def test_progress_counts_bytes_of_the_file_up_to_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_file, "PIECE_BYTES", 10)
    told: list[tuple[int, int]] = []
    path = write(tmp_path, b"0123456\n" * 4)
    list(TextFile(Reading(path, lambda done, total: told.append((done, total)))).pieces())
    assert [total for _, total in told] == [32] * len(told)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1] == (32, 32)
