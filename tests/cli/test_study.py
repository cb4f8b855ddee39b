"""`flocksim-study` and `flocksim experiment=NAME`: what they print, write, reuse and refuse."""

from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.composing import compose_config
from experiments.schema.job import read_job
from experiments.studies import command
from experiments.studies.ada_cascade import study as ada
from experiments.studies.registry import STUDIES
from sim.errors import ConfigError
from tests.conftest import Flocksim, Outcome

Study = Callable[..., Outcome]

FILES = {"findings.csv", "findings.md", "validate_ada_cascade.png", "jobs", "profiles"}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ada._NUM_REQUESTS, "quick", 1100)


@pytest.fixture
def study(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Study:
    """Runs the command in this process; results go to `tmp_path / "out"`."""

    def run(*arguments: str) -> Outcome:
        capsys.readouterr()
        code = command.run_command(list(arguments))
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err, tmp_path / "out")

    return run


def test_the_list_names_every_study_with_its_question_and_sizes(study: Study) -> None:
    run = study("--list")
    assert (run.code, run.err) == (0, "")
    for name in STUDIES:
        assert f"{name}\n" in run.out
    assert run.out.count("?") == len(STUDIES)
    assert run.out.count("size=quick:") == run.out.count("size=full:") == len(STUDIES)


def test_help_teaches(study: Study) -> None:
    run = study("--help")
    assert run.code == 0
    for word in ("size=full", "--dir", "experiment=validate_vllm_a100", "exit code is 0"):
        assert word in run.out
    assert max(map(len, run.out.splitlines())) <= 100


def test_a_study_prints_and_writes_what_it_found_and_runs_nothing_twice(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flocksim: Flocksim
) -> None:
    out = tmp_path / "out"
    first = study("validate_ada_cascade", "--dir", str(out), "--workers", "1", "seed=3")
    assert (first.code, first.err) == (0, "")
    assert {path.name for path in out.iterdir()} == FILES
    assert "* every job with seed=3" in first.out
    for line in (out / "findings.md").read_text().splitlines():
        if line.startswith("* "):
            assert line in first.out
    written = {name: (out / name).read_bytes() for name in FILES if "." in name}

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("simulated again")

    monkeypatch.setattr("experiments.job.simulate", fail)
    again = study("validate_ada_cascade", "--dir", str(out), "--workers", "1", "seed=3")
    assert again.out == first.out
    assert {name: (out / name).read_bytes() for name in written} == written
    of_hydra = flocksim("experiment=validate_ada_cascade", "seed=3", directory=out)
    assert (of_hydra.code, of_hydra.err, of_hydra.out) == (0, "", first.out)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["nope"], f"unknown study: nope; allowed: {', '.join(sorted(STUDIES))}"),
        (["validate_vllm"], "did you mean validate_vllm_a100?"),
        (["validate_vllm_a100", "size=big"], "size=big: must be one of quick, full"),
        (["validate_vllm_a100", "trace.limit=3"], "trace.limit=3: validate_vllm_a100 sets this"),
        (["validate_vllm_a100", "+trace@trace.x=demo"], "sets this itself"),
        (["validate_ada_cascade", "kernel=flash"], "kernel=flash: validate_ada_cascade sets this"),
        (["validate_vllm_a100", "bla"], "bla: must be KEY=VALUE"),
        (["validate_vllm_a100", "hydra.run.dir=x"], "a study writes to --dir"),
        (["validate_vllm_a100", "experiment=x"], "sets this itself"),
        (["validate_vllm_a100", "engine.nope=1"], "unknown key of engine: nope"),
        (["validate_vllm_a100", "seed=1,2"], "seed=1,2"),
        (["validate_vllm_a100", "hardware=h99"], "unknown option: hardware=h99"),
        (["validate_vllm_a100", "--workers", "0"], "--workers=0: must be an integer >= 1"),
        (["validate_vllm_a100", "--what"], "unrecognized arguments: --what"),
        (["validate_vllm_a100", "engine.async_scheduling=3", "--workers", "1"], "true or false"),
    ],
)
def test_a_mistake_is_one_line(
    study: Study, tmp_path: Path, arguments: list[str], line: str
) -> None:
    run = study(*arguments, "--dir", str(tmp_path / "out"))
    assert run.code == 2
    assert run.error_line.startswith("flocksim-study: error: ")
    assert line in run.error_line


def test_a_directory_that_is_a_file_is_refused(study: Study, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    run = study("validate_ada_cascade", "--dir", str(tmp_path / "file"))
    assert (run.code, "is a file" in run.error_line) == (2, True)


def test_without_arguments_it_shows_its_help(study: Study) -> None:
    run = study()
    assert run.code == 2
    assert "--list" in run.out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["experiment=nope"], f"allowed: {', '.join(sorted(STUDIES))}"),
        (
            ["experiment=validate_ada_cascade", "experiment.size=big"],
            "experiment.size=big: must be",
        ),
        (["experiment=validate_ada_cascade", "+experiment.foo=1"], "unknown key of experiment"),
        (["experiment=validate_ada_cascade", "trace=mix"], "trace=mix: validate_ada_cascade sets"),
        (
            ["-m", "experiment=validate_ada_cascade"],
            "run it with flocksim experiment=NAME, without",
        ),
    ],
)
def test_an_experiment_that_cannot_run_is_one_line(
    flocksim: Flocksim, arguments: list[str], line: str
) -> None:
    run = flocksim(*arguments)
    assert run.code == 2
    assert line in run.error_line


def test_an_experiment_is_no_job() -> None:
    config, choices = compose_config(["experiment=validate_vllm_a100"])
    assert "experiment" not in choices
    with pytest.raises(ConfigError, match="a study has jobs of its own"):
        read_job(config)
