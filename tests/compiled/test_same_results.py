"""The compiled form gives what plain Python gives, byte for byte."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sim import compiled
from tests.compiled.digests import jobs

ROOT = Path(__file__).parents[2]


def _digests(folder: Path, wish: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "tests.compiled.digests", str(folder / wish)]
    environment = {**os.environ, compiled.SWITCH: wish}
    return subprocess.Popen(command, cwd=ROOT, env=environment)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if not compiled.is_complete(compiled.build_folder()):
        pytest.skip("the engine is not compiled: make compile")
    folder = tmp_path_factory.mktemp("digests")
    processes = [_digests(folder, wish) for wish in ("0", "1")]
    assert [process.wait() for process in processes] == [0, 0]
    return {wish: json.loads((folder / wish).read_text()) for wish in ("0", "1")}


def test_one_ran_compiled_and_one_did_not(both: dict[str, Any]) -> None:
    assert [both[wish]["form"] for wish in ("0", "1")] == ["plain Python", "compiled engine"]


@pytest.mark.parametrize("name", jobs())
def test_both_forms_write_the_same_files(both: dict[str, Any], name: str) -> None:
    plain, machine = (both[wish]["digests"][name] for wish in ("0", "1"))
    assert len(plain) >= 4
    assert machine == plain


def test_the_jobs_differ(both: dict[str, Any]) -> None:
    results = [files["requests.parquet"] for files in both["0"]["digests"].values()]
    assert len(set(results)) > 0.6 * len(results)
