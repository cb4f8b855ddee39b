"""`flocksim-compile`: what it makes, says and refuses."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from experiments.compiling import builder, command
from sim import compiled

ROOT = Path(__file__).parents[2]


@pytest.fixture
def builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "builds"
    monkeypatch.setenv(compiled.FOLDER, str(folder))
    return folder


@pytest.fixture
def one_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only one small module is compiled, which takes seconds."""
    monkeypatch.setattr(builder, "module_files", lambda: ["sim/step_ends.py"])


@pytest.fixture
def compiles_here() -> None:
    why = builder.why_impossible()
    if why is not None:
        pytest.skip(why)


def run(*arguments: str, builds: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "experiments.compiling", *arguments],
        cwd=ROOT,
        env={**os.environ, compiled.FOLDER: str(builds), **environment},
        capture_output=True,
        text=True,
    )


@pytest.mark.usefixtures("compiles_here", "one_module")
def test_a_build_is_made_told_used_and_removed(
    builds: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.run_command([]) == 0
    folder = compiled.build_folder()
    assert f": {folder}" in capsys.readouterr().out
    assert compiled.is_complete(folder)
    question = "import sim.step_ends; print(sim.step_ends.__file__)"
    environment = {**os.environ, compiled.SWITCH: "1"}
    found = subprocess.check_output([sys.executable, "-c", question], cwd=ROOT, env=environment)
    assert Path(found.decode().strip()).parent == folder / "sim"

    assert command.run_command([]) == 0
    assert command.run_command(["--status"]) == 0
    assert command.run_command(["--status"], wish="0") == 0
    assert capsys.readouterr().out.splitlines() == [
        f"already compiled: {folder}",
        f"compiled: {folder}",
        f"plain Python, because FLOCKSIM_COMPILED=0; compiled: {folder}",
    ]
    assert command.run_command(["--remove"]) == 0
    assert capsys.readouterr().out == "removed 1 build\n"
    assert not builds.exists()


def test_the_newest_builds_stay(builds: Path) -> None:
    folders = [builds / str(k) for k in range(6)]
    for age, folder in enumerate(folders):
        folder.mkdir(parents=True)
        compiled.mark_complete(folder)
        os.utime(folder, (1e9 - age, 1e9 - age))
    builder.forget_old_builds(folders[5])
    assert sorted(path.name for path in builds.iterdir()) == ["0", "1", "2", "5"]


def test_status_without_a_build(builds: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run_command(["--status"]) == 0
    (builds / "another").mkdir(parents=True)
    compiled.mark_complete(builds / "another")
    assert command.run_command(["--status"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "plain Python: not compiled (flocksim-compile)",
        "plain Python: the sources have changed since they were compiled (flocksim-compile)",
    ]


@pytest.mark.parametrize(
    ("missing", "line"),
    [
        ("mypyc", "mypyc not installed: pip install 'flocksim[compile]'"),
        ("setuptools", "setuptools not installed: pip install 'flocksim[compile]'"),
    ],
)
def test_a_missing_package_is_one_line(
    missing: str,
    line: str,
    builds: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def find(name: str) -> object:
        return None if name == missing else find_spec(name)

    monkeypatch.setattr(builder, "find_spec", find)
    assert command.run_command([]) == 2
    assert capsys.readouterr().err == f"flocksim-compile: error: {line}\n"
    assert command.run_command(["--if-possible"]) == 0
    assert capsys.readouterr().out == (
        f"flocksim-compile: not compiled, flocksim runs as plain Python: {line}\n"
    )


def test_a_missing_compiler_is_one_line(builds: Path) -> None:
    done = run(builds=builds, CC="no_such_compiler")
    assert done.returncode == 2
    assert done.stderr.startswith("flocksim-compile: error: no C compiler: no_such_compiler not")
    assert done.stderr.count("\n") == 1


@pytest.mark.usefixtures("compiles_here", "builds", "one_module")
def test_what_does_not_compile_is_one_line_and_a_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], builds: Path
) -> None:
    monkeypatch.setattr(builder, "module_files", lambda: ["sim/no_such_module.py"])
    assert command.run_command([]) == 2
    said = capsys.readouterr().err
    assert said.startswith("flocksim-compile: error: the engine does not compile here: ")
    assert said.count("\n") == 1
    log = compiled.build_folder().with_suffix(".log")
    assert str(log) in said
    assert "no_such_module" in log.read_text()


@pytest.mark.usefixtures("compiles_here", "builds", "one_module")
def test_a_build_that_does_not_run_is_removed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(builder, "TRY", "raise RuntimeError('an error of its own')")
    assert command.run_command([]) == 2
    assert "RuntimeError: an error of its own" in capsys.readouterr().err
    assert not compiled.is_complete(compiled.build_folder())


def test_builds_that_cannot_be_written_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run(builds=tmp_path / "file")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("flocksim-compile: error: ")


@pytest.mark.parametrize("arguments", [["--nothing"], ["more"], ["--status", "--remove"]])
def test_a_mistake_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run_command(arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_help_tells_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run_command(["--help"]) == 0
    said = capsys.readouterr().out
    for words in ("--status", "--remove", "--force", "--if-possible", "FLOCKSIM_COMPILED=0"):
        assert words in said


def test_the_command_works_whatever_the_switch_says(builds: Path) -> None:
    for wish in ("0", "1", ""):
        done = run("--status", builds=builds, FLOCKSIM_COMPILED=wish)
        assert (done.returncode, done.stdout.count("\n")) == (0, 1)
