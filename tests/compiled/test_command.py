"""`flocksim-compile`: what it makes, says and refuses."""

import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from experiments.compiling import builder, command
from experiments.compiling.builds import remove_old_builds
from sim import compiled
from sim.errors import ConfigError

ROOT = Path(__file__).parents[2]
INSTALL = "pip install 'mypy[mypyc]' setuptools (in a checkout: make compile)"


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


def a_build(folder: Path) -> Path:
    """Something that looks like a build."""
    (folder / "sim").mkdir(parents=True)
    (folder / "sim" / "module.so").write_bytes(b"code")
    compiled.mark_complete(folder)
    return folder


def name(number: int) -> str:
    return f"{number:016x}"


def test_the_newest_builds_stay_and_leftovers_go(builds: Path) -> None:
    folders = [a_build(builds / name(k)) for k in range(6)]
    for age, folder in enumerate(folders):
        os.utime(folder, (1e9 - age, 1e9 - age))
    (builds / ".new-interrupted").mkdir()
    os.utime(builds / ".new-interrupted", (1e9, 1e9))
    (builds / ".new-in-work").mkdir()
    remove_old_builds(folders[5])
    left = [".new-in-work", *map(name, (0, 1, 2, 5))]
    assert sorted(path.name for path in builds.iterdir()) == left


def test_a_damaged_build_is_none(builds: Path) -> None:
    folder = a_build(builds / name(0))
    assert compiled.is_complete(folder)
    (folder / "sim" / "module.so").write_bytes(b"cod")
    assert not compiled.is_complete(folder)
    (folder / "sim" / "module.so").unlink()
    assert not compiled.is_complete(folder)
    (folder / "complete").write_text("rubbish")
    assert not compiled.is_complete(folder)


def test_only_builds_are_removed(builds: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_build(builds / name(7))
    (builds / "thesis").mkdir()
    (builds / "thesis" / "chapter.log").touch()
    (builds / "notes.log").touch()
    (builds / f"{name(7)}.log").touch()
    assert command.run_command(["--remove"]) == 0
    assert capsys.readouterr().out == "removed 1 build\n"
    assert sorted(path.name for path in builds.iterdir()) == ["notes.log", "thesis"]
    assert (builds / "thesis" / "chapter.log").exists()


def test_status_without_a_build(builds: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run_command(["--status"]) == 0
    a_build(builds / name(1))
    assert command.run_command(["--status"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "plain Python: not compiled (flocksim-compile)",
        "plain Python: the sources have changed since they were compiled (flocksim-compile)",
    ]


@pytest.mark.parametrize(
    ("missing", "line"),
    [
        ("mypyc", f"mypyc not installed: {INSTALL}"),
        ("setuptools", f"setuptools not installed: {INSTALL}"),
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


@pytest.mark.usefixtures("compiles_here", "one_module")
def test_a_build_that_does_not_run_is_not_put_in_place(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], builds: Path
) -> None:
    def refuse(folder: Path) -> None:
        assert compiled.is_complete(folder)
        raise ConfigError("it does not run")

    kept = a_build(compiled.build_folder())
    monkeypatch.setattr(builder, "try_out", refuse)
    assert command.run_command(["--force"]) == 2
    assert capsys.readouterr().err == "flocksim-compile: error: it does not run\n"
    assert compiled.is_complete(kept)
    assert [path.name for path in builds.iterdir()] == [kept.name]


@pytest.mark.usefixtures("one_module")
def test_a_build_that_is_not_what_it_should_be_is_found_out(builds: Path) -> None:
    with pytest.raises(ConfigError, match=r"error: sim\.step_ends is not compiled"):
        builder.try_out(a_build(compiled.build_folder()))


@pytest.mark.usefixtures("compiles_here")
@pytest.mark.parametrize("flags", [{"CFLAGS": "-Ofast"}, {"CC": "gcc -ffast-math"}])
def test_flags_that_change_arithmetic_have_no_effect(
    builds: Path, flags: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builder, "module_files", lambda: ["sim/step_ends.py"])
    for variable, value in flags.items():
        monkeypatch.setenv(variable, value)
    assert command.run_command([]) == 0
    question = "import sim.step_ends; print(sim.step_ends.__file__, 5e-324)"
    environment = {**os.environ, compiled.SWITCH: "1"}
    said = subprocess.check_output([sys.executable, "-c", question], cwd=ROOT, env=environment)
    assert said.decode().split() == [str(next(builds.glob("*/sim/step_ends.*"))), "5e-324"]


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("gcc -Werror a.c\na.c:3: error: no such thing\nerror: command failed", "a.c:3: error: no"),
        ('  raise RuntimeError("an error")\nRuntimeError: last line\n', "RuntimeError: last line"),
        ("", "nothing was said"),
    ],
)
def test_the_line_that_says_why_is_found(
    said: str, line: str, builds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builder, "_output", lambda *_: (1, said.encode()))
    with pytest.raises(ConfigError, match=f"does not compile here: {line}"):
        builder.try_out(builds / name(3))
    assert (builds / f"{name(3)}.log").read_text() == said


def test_an_interrupted_process_takes_its_own_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interrupt comes when both run, which a named pipe says."""
    os.mkfifo(tmp_path / "pipe")
    script = "sleep 1000 & echo $! > pipe; wait"

    def interrupted(_process: "subprocess.Popen[bytes]") -> tuple[bytes, bytes]:
        pids.append(int((tmp_path / "pipe").read_text()))
        raise KeyboardInterrupt

    pids: list[int] = []
    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        builder._output(["sh", "-c", script], tmp_path, dict(os.environ))
    deadline_s = time.monotonic() + 20
    while _runs(pids[0]):  # a killed process ends soon, not at once
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def _runs(pid: int) -> bool:
    """Whether a process runs: one that has ended may wait for its parent to notice."""
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


@pytest.mark.parametrize("compiler", [" ", 'gcc "x'])
def test_a_compiler_that_cannot_be_read_is_one_line(builds: Path, compiler: str) -> None:
    done = run(builds=builds, CC=compiler)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"CC={compiler!r}: must be the command of a C compiler" in done.stderr


def test_a_relative_folder_of_builds_is_refused() -> None:
    done = run("--status", builds=Path("builds"))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "FLOCKSIM_COMPILED_DIR=builds: must be an absolute path" in done.stderr


def test_builds_that_cannot_be_written_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run(builds=tmp_path / "file")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("flocksim-compile: error: ")


@pytest.mark.parametrize(
    "arguments", [["--nothing"], ["more"], ["--forc"], ["--status", "--remove"]]
)
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
