"""The directory of a run: one run at a time, no mixture of two, refused before the simulation."""

from pathlib import Path

import pytest

from experiments.results.directory_lock import locked
from tests.conftest import TINY, Flocksim


def forbid_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("simulated in vain")

    monkeypatch.setattr("experiments.job.simulate", fail)


def test_a_second_run_into_a_directory_is_refused(flocksim: Flocksim, tmp_path: Path) -> None:
    directory = tmp_path / "out"
    directory.mkdir()
    with locked(directory):
        run = flocksim(*TINY)
    assert run.code == 2
    assert run.error_line == f"flocksim: error: {directory}: another flocksim run is writing here"
    assert list(directory.iterdir()) == []
    assert flocksim(*TINY).code == 0


def test_a_second_sweep_does_not_touch_the_first_ones_files(
    flocksim: Flocksim, tmp_path: Path
) -> None:
    first = tmp_path / "out" / "0"
    first.mkdir(parents=True)
    with locked(first):
        run = flocksim("-m", *TINY, "seed=0,1")
    assert run.code == 2
    assert "another flocksim run is writing here" in run.error_line
    assert list(first.iterdir()) == []
    assert (tmp_path / "out" / "1" / "result.json").exists()


def test_a_failed_write_leaves_no_result_of_an_earlier_run(
    flocksim: Flocksim, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    flocksim(*TINY)
    monkeypatch.setattr("experiments.results.tables._write", refuse)
    run = flocksim(*TINY, "seed=1")
    assert run.code == 2
    assert [path.name for path in run.directory.iterdir()] == ["requests.parquet"]


@pytest.mark.parametrize(
    ("arguments", "told"), [((), "hydra.run.dir must be a directory"), (("-m",), "a directory")]
)
def test_a_file_in_place_of_the_directory(
    arguments: tuple[str, ...], told: str, flocksim: Flocksim, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    run = flocksim(*arguments, *TINY, directory=tmp_path / "file")
    assert run.code == 2
    assert str(tmp_path / "file") in run.error_line
    assert told in run.error_line


@pytest.mark.parametrize("name", ["result.json", "run.json", "requests.parquet"])
def test_a_directory_in_place_of_a_file_is_noticed_before_the_simulation(
    name: str, flocksim: Flocksim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbid_simulation(monkeypatch)
    (tmp_path / "out" / name).mkdir(parents=True)
    run = flocksim(*TINY)
    assert run.code == 2
    assert f"{name}: is a directory where a file is to be written" in run.error_line
