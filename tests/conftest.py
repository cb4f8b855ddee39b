"""Fixtures and switches for the whole suite."""

import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

TINY = ("trace=synthetic", "trace.num_requests=40", "trace.prompt=64-256", "trace.output=1-32")
"""Overrides of a job that simulates in milliseconds."""

TINY_MOONCAKE = """\
{"timestamp": 0, "input_length": 1000, "output_length": 8, "hash_ids": [0, 1]}
{"timestamp": 20, "input_length": 1100, "output_length": 40, "hash_ids": [0, 2, 3]}
{"timestamp": 20, "input_length": 512, "output_length": 1, "hash_ids": [4]}
{"timestamp": 950, "input_length": 1600, "output_length": 24, "hash_ids": [0, 2, 5, 6]}
{"timestamp": 1000, "input_length": 300, "output_length": 60, "hash_ids": [7]}
"""
"""Five rows of the Mooncake format with shared beginnings and a simultaneous arrival."""


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # So are the children of a shell in the background; tests send the signal to themselves.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regen", action="store_true", help="rewrite the golden files")


@pytest.fixture
def is_regen(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--regen"))


@pytest.fixture
def mooncake_file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.jsonl"
    path.write_text(TINY_MOONCAKE)
    return path


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str
    directory: Path

    @property
    def error_line(self) -> str:
        """The one line on standard error."""
        lines = self.err.strip().splitlines()
        assert len(lines) == 1, self.err
        return lines[0]


Flocksim = Callable[..., Outcome]


@pytest.fixture
def flocksim(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Flocksim:
    """Runs the command in this process; results go to `tmp_path / "out"` or where told."""
    from experiments.cli import run_command

    def run(*arguments: str, directory: Path | None = None) -> Outcome:
        into = directory or tmp_path / "out"
        key = "hydra.sweep.dir" if "-m" in arguments else "hydra.run.dir"
        capsys.readouterr()
        code = run_command([*arguments, f"{key}={into}"])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err, into)

    return run
