"""Files of figures."""

from pathlib import Path

import pytest

from experiments.figures import NAMES, figure, save_all
from experiments.figures.errors import FigureError, MeasuredError
from experiments.figures.save import write_picture
from experiments.results.atomic import OutputError
from tests.unit.experiments.figure_runs import latency_metrics, study_runs, write_run


def test_every_figure_is_written_and_nothing_is_left_out(tmp_path: Path) -> None:
    told: list[str] = []
    runs = study_runs(tmp_path / "runs")
    written = save_all(runs, tmp_path / "out", say=told.append)
    assert written == [tmp_path / "out" / f"{name}.png" for name in NAMES]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        path.name for path in written
    )
    assert told == []


def test_the_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    # hatches, and an image
    runs = study_runs(tmp_path / "runs")[:1]
    for name, suffix in (("breakdown", "svg"), ("breakdown", "pdf"), ("timeline", "png")):
        files = [tmp_path / f"{k}.{suffix}" for k in range(2)]
        for file in files:
            write_picture(figure(name, runs), file)
        first, second = (file.read_bytes() for file in files)
        assert first == second, (name, suffix)
        for word in (b"dc:date", b"CreationDate", b"Software", b"Matplotlib v"):
            assert word not in first, (name, suffix)


def test_what_is_left_out_is_told_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "0", metrics=latency_metrics(0.1))
    failed = write_run(tmp_path / "1", "routing=jsq", status="failed", regime=None)
    written = save_all([run, failed], tmp_path / "out")
    assert written == []
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "figures: 1 of 2 runs failed, were infeasible or were interrupted: not drawn"
    assert [line.partition(":")[0] for line in lines[1:]] == [
        f"figure {name} left out" for name in NAMES
    ]
    assert lines[1] == (
        "figure latency_vs_rate left out: no offered rate: it takes requests.parquet with "
        "arrivals at several times"
    )
    why = "there is one point: it takes several loads or policies"
    assert f"figure frontier left out: {why}" in lines


def test_a_lone_rate_is_drawn_against_measured_ones_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.figures.save.write_picture", lambda *_: None)
    told: list[str] = []
    runs = study_runs(tmp_path / "runs")[:2]
    save_all(runs, tmp_path / "out", say=told.append)
    assert "figure latency_vs_rate left out: all runs have the same offered rate" in told
    bench = tmp_path / "bench.json"
    bench.write_text('{"request_throughput": 1.0, "mean_ttft_ms": 200.0}')
    again = save_all(runs, tmp_path / "out", measured=bench, say=told.append)
    assert tmp_path / "out" / "latency_vs_rate.png" in again


def test_a_bad_format_or_measured_file_ends_it_before_anything_is_written(tmp_path: Path) -> None:
    run = write_run(tmp_path / "0", metrics=latency_metrics(0.1))
    with pytest.raises(FigureError, match="unknown format 'gif': must be one of png, svg, pdf"):
        save_all([run], tmp_path / "out", ("gif",))
    with pytest.raises(MeasuredError, match=r"none\.json: cannot be read"):
        save_all([run], tmp_path / "out", measured=tmp_path / "none.json")
    assert not (tmp_path / "out").exists()


def test_a_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "0", metrics=latency_metrics(0.1))
    (tmp_path / "out").write_text("")
    with pytest.raises(OutputError, match="is a file, but must be a directory"):
        save_all([run], tmp_path / "out")
