"""The command: exit codes and one line for every mistake."""

from pathlib import Path

import pytest

from hwmodels.microbench import cli
from tests.unit.hwmodels.microbench.stand_in import StandIn


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.jsonl"


def use(monkeypatch: pytest.MonkeyPatch, device: StandIn) -> None:
    monkeypatch.setattr(cli, "_open", lambda seed: device)


def test_done(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    use(monkeypatch, StandIn())
    assert cli.run_command(["--out", str(path)]) == 0


def test_interrupted(
    monkeypatch: pytest.MonkeyPatch, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, StandIn(interrupted_at=2))
    assert cli.run_command(["--out", str(path)]) == 130
    assert capsys.readouterr().err == f"microbench: interrupted; rows are kept in {path}\n"


def test_nothing_could_be_measured(
    monkeypatch: pytest.MonkeyPatch, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, StandIn(always_fails=True))
    assert cli.run_command(["--out", str(path)]) == 1
    assert capsys.readouterr().err == "microbench: error: no case could be measured\n"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "the following arguments are required: --out"),
        (["--out", "x", "--budget-s", "0"], "must be a number of seconds above 0, found '0'"),
        (["--out", "x", "--budget-s", "nan"], "must be a number of seconds above 0, found 'nan'"),
        (["--out", "x", "--seed", "-1"], "must be a whole number below 10^9, found '-1'"),
        (["--out", "x", "--plan", "b200"], "invalid choice: 'b200'"),
        (["--out", "x", "--fast"], "unrecognized arguments: --fast"),
    ],
)
def test_a_wrong_option_gets_one_line(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run_command(arguments) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("microbench: error: ")
    assert line in shown
    assert shown.count("\n") == 1


def test_a_broken_rows_file_gets_one_line_and_is_kept(
    monkeypatch: pytest.MonkeyPatch, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, StandIn())
    path.write_text("not rows\n")
    assert cli.run_command(["--out", str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"microbench: error: {path}:1: not valid JSON")
    assert path.read_text() == "not rows\n"


def test_a_wrong_gpu_gets_one_line(
    monkeypatch: pytest.MonkeyPatch, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    use(monkeypatch, StandIn())
    assert cli.run_command(["--out", str(path), "--plan", "hopper"]) == 2
    assert "is for compute capability 9.0" in capsys.readouterr().err
    assert not path.exists()


def test_a_missing_package_gets_one_line(
    monkeypatch: pytest.MonkeyPatch, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    assert cli.run_command(["--out", str(path)]) == 2
    line = "microbench: error: torch is not installed: pip install torch triton numpy\n"
    assert capsys.readouterr().err == line
