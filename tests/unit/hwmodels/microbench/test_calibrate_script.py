"""`tools/calibrate_gpu.sh` with an interpreter that stands in for the one of a GPU host."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[4] / "tools" / "calibrate_gpu.sh"

PYTHON = """\
#!/bin/sh
case "$*" in
*find_spec*{missing}*) exit 1 ;;
*find_spec* | *version_info*) exit 0 ;;
esac
echo "$@" > {arguments}
{program}
"""
"""Says that all packages but one are there, and runs a program in the place of the command."""


def run(
    folder: Path, program: str, *arguments: str, missing: str = "nothing", **environment: str
) -> subprocess.CompletedProcess[str]:
    python = folder / "python"
    asked = folder / "asked"
    python.write_text(PYTHON.format(program=program, missing=missing, arguments=asked))
    python.chmod(0o755)
    given = {"PYTHON": str(python), "CC": sys.executable, **environment}
    return subprocess.run(
        [str(SCRIPT), *(arguments or (str(folder / "out"),))],
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_run_leaves_a_log_and_a_table(tmp_path: Path) -> None:
    done = run(tmp_path, "echo head; echo '[1/2] gemm: 3 us'; echo table")
    out = tmp_path / "out"
    assert done.returncode == 0, done.stderr
    assert (out / "log.txt").read_text() == "head\n[1/2] gemm: 3 us\ntable\n"
    assert (out / "table.txt").read_text() == "head\ntable\n"
    asked = (tmp_path / "asked").read_text()
    assert f"-m hwmodels.microbench --out {out}/rows.jsonl --budget-s 4" in asked
    assert "--plan auto" in asked


def test_a_mistake_of_the_command_is_passed_on(tmp_path: Path) -> None:
    done = run(tmp_path, "echo microbench: error: no CUDA device is usable >&2; exit 2")
    assert done.returncode == 2
    assert done.stdout == "microbench: error: no CUDA device is usable\n"


@pytest.mark.parametrize(
    ("arguments", "environment", "line"),
    [
        (["a", "b"], {}, "one folder at most, found 2 arguments"),
        ([], {"missing": "triton"}, "has no triton"),
        ([], {"LIMIT_S": "soon"}, "LIMIT_S must be a whole number of seconds, found 'soon'"),
        ([], {"LIMIT_S": "10"}, "LIMIT_S must be at least 60, found 10"),
        (["/proc/no"], {}, "cannot write into /proc/no"),
    ],
)
def test_what_is_missing_is_told_in_one_line(
    tmp_path: Path, arguments: list[str], environment: dict[str, str], line: str
) -> None:
    done = run(tmp_path, "exit 0", *arguments, **environment)
    assert done.returncode == 2
    assert done.stderr.startswith("calibrate_gpu: error: ")
    assert line in done.stderr
    assert done.stderr.count("\n") == 1


def test_no_interpreter(tmp_path: Path) -> None:
    done = run(tmp_path, "exit 0", PYTHON="no-such-python")
    assert done.returncode == 2
    assert "no no-such-python here" in done.stderr
