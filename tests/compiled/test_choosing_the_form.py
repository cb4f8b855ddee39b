"""Which form of the engine a process runs: builds, the switch, edited sources."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sim import compiled

ROOT = Path(__file__).parents[2]
ASK = "import sim.extents; print(sim.extents.__file__)"


def ask(root: Path, builds: Path, wish: str | None = None, ask: str = ASK) -> tuple[int, str]:
    """Exit code of a process with the packages in `root`, and all it says."""
    environment = {k: v for k, v in os.environ.items() if k != compiled.SWITCH}
    environment[compiled.FOLDER] = str(builds)
    if wish is not None:
        environment[compiled.SWITCH] = wish
    done = subprocess.run(
        [sys.executable, "-c", ask], cwd=root, env=environment, capture_output=True, text=True
    )
    return done.returncode, (done.stdout + done.stderr).strip()


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A copy of the sources that a build depends on."""
    root = tmp_path / "copy"
    for package in compiled.PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, root / package, ignore=ignored)
    return root


def pretend_build(builds: Path) -> Path:
    """A build in which `sim.extents` is Python that says where it is."""
    digest = compiled.build_folder().name
    package = builds / digest / "sim"
    package.mkdir(parents=True)
    shutil.copy(ROOT / "sim" / "extents.py", package / "extents.py")
    compiled.mark_complete(builds / digest)
    return package / "extents.py"


def test_a_build_of_these_sources_is_used(sources: Path, tmp_path: Path) -> None:
    own, built = str(sources / "sim" / "extents.py"), str(pretend_build(tmp_path / "builds"))
    assert ask(sources, tmp_path / "builds") == (0, built)
    assert ask(sources, tmp_path / "builds", "1") == (0, built)
    assert ask(sources, tmp_path / "builds", "0") == (0, own)
    assert ask(sources, tmp_path / "none") == (0, own)


@pytest.mark.parametrize("edited", ["sim/extents.py", "sim/cluster.py", "hwmodels/kernels/gemm.py"])
def test_an_edit_brings_back_plain_python(sources: Path, tmp_path: Path, edited: str) -> None:
    built = str(pretend_build(tmp_path / "builds"))
    path = sources / edited
    before = path.read_text()
    path.write_text(before + "\n")
    assert ask(sources, tmp_path / "builds") == (0, str(sources / "sim" / "extents.py"))
    path.write_text(before)
    assert ask(sources, tmp_path / "builds") == (0, built)
    (sources / "sim" / "one_more.py").touch()
    assert ask(sources, tmp_path / "builds") == (0, str(sources / "sim" / "extents.py"))


def test_half_a_build_is_not_used(sources: Path, tmp_path: Path) -> None:
    built = pretend_build(tmp_path / "builds")
    (built.parents[1] / "complete").unlink()
    assert ask(sources, tmp_path / "builds") == (0, str(sources / "sim" / "extents.py"))


def test_a_wish_that_cannot_be_met_is_one_line(tmp_path: Path) -> None:
    code, said = ask(ROOT, tmp_path, "1")
    assert (code, said.count("\n")) == (2, 0)
    assert said.endswith("these sources are not compiled: run flocksim-compile")
    code, said = ask(ROOT, tmp_path, "yes")
    assert (code, said.count("\n")) == (2, 0)
    assert "FLOCKSIM_COMPILED=yes: must be 0 (plain Python) or 1 (compiled), or not set" in said


def test_data_files_are_found_with_a_build(sources: Path, tmp_path: Path) -> None:
    pretend_build(tmp_path / "builds")
    profiles = Path("hwmodels", "profiles")
    shutil.copytree(ROOT / profiles, sources / profiles, dirs_exist_ok=True)
    question = "import hwmodels; print(hwmodels.load_profile('a100_sxm_80gb').name)"
    assert ask(sources, tmp_path / "builds", "1", question) == (0, "a100_sxm_80gb")
