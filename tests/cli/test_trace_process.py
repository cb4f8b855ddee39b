"""`flocksim-trace` as a process: entry point, streams, progress."""

import io
from pathlib import Path

import pytest

from experiments.trace_cli.progress import progress_of
from tests.cli.test_streams import needs_shell, shell
from tests.conftest import TINY_MOONCAKE

MODULE = "experiments.trace_cli"


@needs_shell
@pytest.mark.parametrize("redirection", ["| true", ">&-", ">/dev/full 2>/dev/full"])
def test_a_trace_is_written_whatever_the_output_is(redirection: str, tmp_path: Path) -> None:
    source, out = tmp_path / "a.jsonl", tmp_path / "a.parquet"
    source.write_text(TINY_MOONCAKE)
    done = shell(redirection, MODULE, "convert", str(source), "--out", str(out))
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "a.parquet"]


@needs_shell
def test_faults_are_exit_code_1_even_unread(tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    source.write_text(TINY_MOONCAKE.replace("1100", "0"))
    assert shell(">&-", MODULE, "validate", str(source)).returncode == 1


def test_progress_is_silent_where_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    with progress_of("x/a.jsonl") as report:
        assert report is None
    assert stream.getvalue() == ""


def test_progress_on_a_terminal_names_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("sys.stderr", stream)
    with progress_of("x/a.jsonl") as report:
        assert report is not None
        report(30, 40)
    assert "a.jsonl" in stream.getvalue()
    assert "75%" in stream.getvalue()
