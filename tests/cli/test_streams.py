"""Closed, full, broken or narrow standard streams lose no run and change no exit code."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import TINY

REPOSITORY = Path(__file__).resolve().parents[2]
FILES = ["distributions.parquet", "requests.parquet", "result.json", "run.json"]

needs_shell = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux devices")


def shell(
    redirection: str,
    module: str,
    *arguments: str,
    before: str = "",
    folder: Path = REPOSITORY,
) -> subprocess.CompletedProcess[str]:
    quoted = " ".join(f"'{item}'" for item in arguments)
    command = f"set -o pipefail; {before} '{sys.executable}' -m {module} {quoted} {redirection}"
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@needs_shell
@pytest.mark.parametrize("redirection", ["| true", ">&-", "2>&-", ">/dev/full 2>/dev/full"])
def test_a_run_is_written_whatever_its_output_is(redirection: str, tmp_path: Path) -> None:
    done = shell(redirection, "experiments", *TINY, f"hydra.run.dir={tmp_path}/out")
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == FILES


@needs_shell
def test_an_ascii_terminal_sees_escapes(tmp_path: Path) -> None:
    into = f'hydra.run.dir="{tmp_path}/é"'
    done = shell("", "experiments", *TINY, into, before="LC_ALL=C PYTHONIOENCODING=ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\xe9" in done.stdout.splitlines()[-1]
    assert sorted(path.name for path in (tmp_path / "é").iterdir()) == FILES


@needs_shell
@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_a_mistake_keeps_its_exit_code(redirection: str) -> None:
    assert shell(redirection, "experiments", "--no-such-flag").returncode == 2


@needs_shell
@pytest.mark.parametrize("redirection", ["| true", "| head -c 1", ">&-", ">/dev/full"])
@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_and_version_go_nowhere_quietly(flag: str, redirection: str) -> None:
    done = shell(redirection, "experiments", flag)
    assert (done.returncode, done.stderr) == (0, "")


@needs_shell
def test_the_demo_goes_nowhere_quietly(tmp_path: Path) -> None:
    done = shell(">/dev/full", "experiments.demo", *TINY, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "outputs" / "demo" / "cdf.png").is_file()
