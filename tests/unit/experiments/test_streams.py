"""Streams that cannot fail, and Ctrl-C that waits."""

import io
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from experiments import cli, package_guard
from experiments.capacity import cli as capacity_cli
from experiments.compare import command
from experiments.deferred_interrupt import deferred_interrupt, undisguised_interrupts
from experiments.results.atomic import write_text
from experiments.results.json_text import json_text
from experiments.streams import install_lenient_streams, lenient


def text_stream(descriptor: int, encoding: str = "utf-8") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.FileIO(descriptor, "w", closefd=False), encoding=encoding)


def test_a_broken_pipe_costs_the_text_alone() -> None:
    reader, writer = os.pipe()
    stream = lenient(text_stream(writer), 1)
    print("read", file=stream)
    assert os.read(reader, 100) == b"read\n"
    os.close(reader)
    for _ in range(3):
        print("lost", file=stream, flush=True)
    os.write(writer, b"now the null device")
    stream.close()
    os.close(writer)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device")
def test_a_full_device_costs_the_text_alone() -> None:
    descriptor = os.open("/dev/full", os.O_WRONLY)
    stream = lenient(text_stream(descriptor), 1)
    print("x" * 100_000, file=stream, flush=True)
    stream.close()
    os.close(descriptor)


def test_text_that_the_encoding_lacks_is_escaped(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "out", os.O_CREAT | os.O_WRONLY)
    print("é\udcff", file=lenient(text_stream(descriptor, "ascii"), 1), flush=True)
    os.close(descriptor)
    assert (tmp_path / "out").read_text() == "\\xe9\\udcff\n"


def test_a_closed_descriptor_is_filled_so_that_no_file_takes_its_place(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "out", os.O_CREAT | os.O_WRONLY)
    os.close(descriptor)
    print("lost", file=lenient(None, descriptor), flush=True)
    assert os.fstat(descriptor).st_rdev == Path(os.devnull).stat().st_rdev
    os.close(descriptor)


def test_a_stream_that_someone_put_there_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = io.StringIO()
    monkeypatch.setattr(sys, "stdout", mine)
    monkeypatch.setattr(sys, "stderr", mine)
    install_lenient_streams()
    assert sys.stdout is sys.stderr is mine


def test_ctrl_c_waits_for_the_end_of_the_block() -> None:
    done = []
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), deferred_interrupt():
        signal.raise_signal(signal.SIGINT)
        done.append("all")
    assert done == ["all"]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_does_not_wait() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), deferred_interrupt():
        signal.raise_signal(signal.SIGINT)
        done.append("some")
        signal.raise_signal(signal.SIGINT)
        done.append("all")
    assert done == ["some"]


def test_ctrl_c_that_a_library_turned_into_an_error_is_ctrl_c_again() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), undisguised_interrupts():
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ValueError from None
    assert signal.getsignal(signal.SIGINT) is before


def test_an_error_without_ctrl_c_stays_what_it_is() -> None:
    with pytest.raises(ValueError, match="odd"), undisguised_interrupts():
        raise ValueError("odd")


def test_an_ignored_ctrl_c_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with undisguised_interrupts():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("main", "name"),
    [
        (cli.main, "flocksim"),
        (capacity_cli.main, "flocksim"),
        (command.main, "flocksim-compare"),
    ],
)
def test_ctrl_c_while_modules_are_imported_ends_in_one_line(
    main: Callable[[Sequence[str]], NoReturn],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted() -> str | None:
        raise KeyboardInterrupt

    monkeypatch.setattr(package_guard, "foreign_package", interrupted)
    with pytest.raises(SystemExit) as ended:
        main(["seed=1"])
    assert ended.value.code == 130
    assert capsys.readouterr().err == f"{name}: interrupted\n"


def test_a_name_that_is_no_utf_8_is_written_as_valid_json(tmp_path: Path) -> None:
    write_text(tmp_path / "run.json", json_text({"argv": ["trace.path=\udcff"]}))
    assert json.loads((tmp_path / "run.json").read_text()) == {"argv": ["trace.path=\udcff"]}
