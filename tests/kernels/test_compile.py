"""Every kernel compiles to machine code for A100 and Hopper, though neither is here."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hwmodels.microbench import kernels

_SHARED_BYTES = 99 * 1024
"""Shared memory of a thread block where it is least: compute capability 8.6 and 8.9."""


@pytest.mark.parametrize("capability", ["80", "90"])
def test_all_kernels_compile(capability: str, tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path)}
    environment.pop("TRITON_INTERPRET", None)
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.compile_for", capability],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    compiled = [json.loads(line) for line in done.stdout.splitlines()]
    assert {record["name"] for record in compiled} == _kernel_names()
    for record in compiled:
        assert record["code_bytes"] > 0
        assert record["shared_bytes"] <= _SHARED_BYTES, record


def _kernel_names() -> set[str]:
    names = set()
    (folder,) = kernels.__path__
    for path in Path(folder).glob("*.py"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("def _") and "_kernel(" in line:
                names.add(line.removeprefix("def ").partition("(")[0])
    return names
