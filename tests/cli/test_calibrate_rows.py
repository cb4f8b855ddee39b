"""`flocksim-calibrate measure`, and what follows from a file of rows: fit, validate, compare, run.

The GPU is synthetic. How well constants are found is tested with the fits; here, what the commands
read, print, write and refuse.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.patches import Rectangle

from experiments import cli
from experiments.calibrate import command, compared, rows_fit
from experiments.calibrate.compare_figure import compare_figure
from experiments.calibrate.compared import CONSTANT, STEP, TIME, Pair, pairs_of
from experiments.calibrate.figure_set import calibration_figures
from experiments.calibrate.named_kernels import profile_named
from experiments.calibrate.reference_grid import points, times_s
from hwmodels.device import load_profile
from hwmodels.fitting.rows_file import read_rows_file
from hwmodels.fitting.rows_priors import priors_of
from hwmodels.fitting.rows_validation import compare_rows
from hwmodels.kernels.models import load_kernels
from hwmodels.microbench.cases import GemmCase, LaunchCase, StreamCase
from tests.conftest import TINY, Outcome
from tests.unit.experiments.measured_files import hidden_profile
from tests.unit.hwmodels.rows.measured import written

Run = Callable[..., Outcome]

DEVICE = "a100_sxm_80gb"
PICTURES = ["l2_curve.png", "roofline.png", "shared_prefix_heat_map.png"]


@pytest.fixture
def calibrate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in this process."""

    def run(*arguments: str | Path | float) -> Outcome:
        capsys.readouterr()
        code = command.run_command([str(item) for item in arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err, tmp_path)

    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`rows.jsonl` and, fitted to it under a name that is not known, `gpus/mine.json`."""
    folder = tmp_path_factory.mktemp("calibration")
    rows, profile = folder / "rows.jsonl", folder / "gpus" / "mine.json"
    measure = ["measure", "--device", "synthetic", "--out", str(rows), "--seed", "3"]
    assert command.run_command(measure) == 0
    fit = ["fit", "--data", str(rows), "--device", "mine", "--out", str(profile)]
    assert command.run_command([*fit, "--date", "2026-01-02"]) == 0
    return folder


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of the L2 curve, products and launches only, so that a fit is quick."""
    path = tmp_path_factory.mktemp("few") / "rows.jsonl"
    reads = [
        StreamCase(op="read", data_set_bytes=size * 2**20)
        for size in (8, 16, 24, 32, 40, 48, 56, 64, 128, 512)
    ]
    products = [
        GemmCase(m=m, n=n, k=k, impl="library")
        for m in (1, 64, 4096)
        for n, k in ((1024, 4096), (6144, 4096), (28672, 4096), (4096, 14336), (8192, 8192))
    ]
    launches = [LaunchCase(kind="launch", num_kernels=4**power) for power in range(6)]
    written(path, [*reads, *products, *launches])
    return path


def test_measure_prints_each_case_and_a_table(calibrate: Run, tmp_path: Path) -> None:
    out = tmp_path / "new" / "rows.jsonl"
    outcome = calibrate("measure", "--device", "synthetic", "--out", out, "--budget-s", 10)
    assert outcome.code == 0
    assert outcome.err == ""
    lines = outcome.out.splitlines()
    assert lines[0].startswith("synthetic a100_sxm_80gb: plan a100, ")
    assert "stream:" in lines[1]
    assert "left for another run" in lines[-1]
    num_rows = sum(rows.num_rows for rows in read_rows_file(out).tables.values())
    assert num_rows == sum(line.startswith("[") for line in lines)
    assert 40 < num_rows < 70, "10 s of 0.15 s and more each"


def test_a_second_run_goes_on_and_both_give_the_rows_of_one(calibrate: Run, tmp_path: Path) -> None:
    parts, whole = tmp_path / "parts.jsonl", tmp_path / "whole.jsonl"
    measure = ("measure", "--device", "synthetic", "--out")
    calibrate(*measure, parts, "--budget-s", 20)
    first = parts.read_text()
    assert calibrate(*measure, parts).code == 0
    assert calibrate(*measure, whole).code == 0
    assert parts.read_text().startswith(first)
    drop = ("took_s",)

    def rows(path: Path) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        return [{key: value for key, value in line.items() if key not in drop} for line in lines]

    assert rows(parts) == rows(whole)
    assert calibrate(*measure, parts).out.splitlines()[-1] == "0 cases measured; 703 were there"


def test_a_hidden_profile_can_be_named(calibrate: Run, tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    measure = ("measure", "--device", "synthetic", "--profile", "h200_sxm", "--out", out)
    assert calibrate(*measure, "--budget-s", 5).code == 0
    header = read_rows_file(out).header
    assert (header.device.name, header.plan) == ("synthetic h200_sxm", "hopper")


def test_a_fit_to_rows_writes_a_device_and_its_kernels(
    calibrate: Run, few: Path, tmp_path: Path
) -> None:
    out = tmp_path / "mine.json"
    arguments = ("--data", few, "--device", "mine", "--date", "2026-01-03")
    outcome = calibrate("fit", *arguments, "--out", out)
    assert outcome.code == 0
    assert outcome.out == f"{out}\n{tmp_path / 'kernels' / 'mine.json'}\n"
    assert "mine: no such profile, made from the rows of synthetic a100_sxm_80gb" in outcome.err
    assert "gemm: " in outcome.err
    assert "kernel_s 2.2" in outcome.err, "launches are in no profile, so they are printed"
    assert "moe: no rows, from a100_sxm_80gb (extrapolated)" in outcome.err
    again = tmp_path / "again"
    assert calibrate("fit", *arguments, "--out", again / "mine.json").code == 0
    for name in ("mine.json", "kernels/mine.json"):
        assert (tmp_path / name).read_bytes() == (again / name).read_bytes()
    device = load_profile(out)
    assert device.kernels == load_kernels(tmp_path / "kernels" / "mine.json")
    assert device.kernels.date == "2026-01-03"


def test_a_fit_of_a_packaged_gpu_keeps_what_was_not_measured(
    calibrate: Run, few: Path, tmp_path: Path
) -> None:
    outcome = calibrate("fit", "--data", few, "--device", DEVICE, "--out", tmp_path / "own.json")
    assert outcome.code == 0
    models = load_profile(tmp_path / "own.json").kernels
    shipped = load_kernels(DEVICE)
    assert models.moe == shipped.moe
    assert models.provenance["moe"] == shipped.provenance["moe"]
    assert models.provenance["gemm"].num_rows == 15
    assert models.date == read_rows_file(few).header.date, "the day of the measurement"
    assert models.inputs.keys() == {*shipped.inputs, "rows.jsonl"}


def test_a_profile_of_ones_own_stays_and_gets_kernels(
    calibrate: Run, folder: Path, few: Path, tmp_path: Path
) -> None:
    profile = tmp_path / "mine.json"
    profile.write_bytes((folder / "gpus" / "mine.json").read_bytes() + b"\n")
    before = profile.read_bytes()
    outcome = calibrate("fit", "--data", few, "--device", profile, "--out", profile)
    assert outcome.code == 0
    assert outcome.out == f"{tmp_path / 'kernels' / 'mine.json'}\n"
    assert profile.read_bytes() == before


def test_a_profile_that_was_written_is_used_and_not_replaced(
    calibrate: Run, few: Path, tmp_path: Path
) -> None:
    out, kernels = tmp_path / "mine.json", tmp_path / "kernels" / "mine.json"
    fit = ("fit", "--data", few, "--device", "mine", "--date", "2026-01-03", "--out", out)
    assert calibrate(*fit).code == 0
    first = kernels.read_bytes()
    again = calibrate(*fit)
    assert (again.code, again.out) == (0, f"{kernels}\n")
    assert f"mine: {out} is there: used as it is, only its kernels are fitted" in again.err
    assert kernels.read_bytes() == first, "an earlier fit decides nothing"
    record = json.loads(out.read_text())
    record["constants"]["peak_flops_per_s"] = {
        "value": 312e12,
        "unit": "flops/s",
        "source": "datasheet",
    }
    out.write_text(json.dumps(record))
    edited = out.read_bytes()
    assert calibrate(*fit).code == 0
    assert out.read_bytes() == edited


def test_no_command_replaces_another_device_profile(
    calibrate: Run, few: Path, tmp_path: Path
) -> None:
    out = tmp_path / "other.json"
    packaged = files("hwmodels") / "profiles" / "l40s.json"
    out.write_text(json.dumps(json.loads(packaged.read_text()) | {"name": "other"}))
    before = out.read_bytes()
    fit = calibrate("fit", "--data", few, "--device", "mine", "--out", out)
    assert fit.code == 2
    assert f"{out} exists and is no device profile of the name mine" in fit.error_line
    copy = tmp_path / "copy.json"
    copy.write_text(
        json.dumps(json.loads((files("hwmodels") / "profiles" / f"{DEVICE}.json").read_text()))
    )
    fit = calibrate("fit", "--data", few, "--device", copy, "--out", out)
    assert fit.code == 2
    assert f"{out} exists and differs from {copy}" in fit.error_line
    tables = calibrate("fit", "--data", tmp_path, "--device", DEVICE, "--out", out)
    table = calibrate("table", "--data", few, "--device", DEVICE, "--out", out)
    moved = calibrate("transfer", "--from", DEVICE, "--to", "l40s", "--out", out)
    for outcome in (tables, table, moved):
        assert outcome.code == 2
        assert f"{out} is a device profile, which stays as it is" in outcome.error_line
    assert out.read_bytes() == before


def test_a_new_profile_says_that_its_link_is_assumed(
    calibrate: Run, few: Path, tmp_path: Path
) -> None:
    outcome = calibrate("fit", "--data", few, "--device", "mine", "--out", tmp_path / "mine.json")
    assert (
        "mine: nvlink_bytes_per_s 3e+11 is assumed: that of a100_sxm_80gb; not measured with one "
        "GPU." in outcome.err
    )


def test_kernels_without_rows_are_told_with_where_their_profile_has_them_from(
    capsys: pytest.CaptureFixture[str],
) -> None:
    device = load_profile("rtx6000_ada")
    priors = priors_of(device, "2026-01-02")
    fit: Any = SimpleNamespace(
        fitted={}, notes={}, file=SimpleNamespace(num_failures={}), priors=priors, device=device
    )
    rows_fit._report(fit, device.kernels)
    lines = capsys.readouterr().err.splitlines()
    told = "as in profile rtx6000_ada, transferred from a100_sxm_80gb (extrapolated)"
    assert f"moe: no rows, {told}" in lines


def test_times_in_the_wrong_unit_are_warned_of(calibrate: Run, few: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    lines = [json.loads(line) for line in few.read_text().splitlines()]
    for line in lines:
        for name in ("p20_s", "p50_s", "p80_s"):
            if name in line:
                line[name] /= 1e3
    rows.write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = ("--data", rows, "--device", DEVICE, "--out", tmp_path / "own.json")
    outcome = calibrate("fit", *arguments)
    assert outcome.code == 0
    warnings = [line for line in outcome.err.splitlines() if line.startswith("warning: ")]
    assert any(
        line.startswith("warning: gemm: the fit is poor, error on held-") for line in warnings
    )
    right = calibrate("fit", "--data", few, "--device", DEVICE, "--out", tmp_path / "own.json")
    assert "warning" not in right.err


def test_rows_that_the_fit_left_out_are_told(calibrate: Run, few: Path, tmp_path: Path) -> None:
    rows, out = tmp_path / "rows.jsonl", tmp_path / "own.json"
    lines = [json.loads(line) for line in few.read_text().splitlines()]
    slow = next(line for line in lines if line.get("params", {}).get("data_set_bytes") == 2**29)
    for name in ("p20_s", "p50_s", "p80_s"):
        slow[name] *= 3
    rows.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert calibrate("fit", "--data", rows, "--device", DEVICE, "--out", out).code == 0
    validate = ("validate", "--profile", out, "--data", rows)
    line = "l2: 10 rows compared, of which the fit used 9: the others were too far off it"
    assert line in calibrate(*validate).out
    report = json.loads(calibrate(*validate, "--json").out)
    numbers = {one["kernel"]: one["num_rows_fit"] for one in report["comparisons"]}
    assert numbers == {"l2": 9, "gemm": None}


def test_an_overlay_is_compared_by_its_name(calibrate: Run, tmp_path: Path) -> None:
    overlay = hidden_profile(tmp_path, step_overhead_s=3e-3).rename(tmp_path / "overlay.json")
    outcome = calibrate("compare", DEVICE, overlay)
    assert outcome.code == 0
    assert "hidden" in outcome.out
    assert "overlay" not in outcome.out


def test_validate_compares_a_profile_with_its_rows(
    calibrate: Run, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    profile, rows = folder / "gpus" / "mine.json", folder / "rows.jsonl"
    outcome = calibrate("validate", "--profile", profile, "--data", rows, "--figures", out)
    assert outcome.code == 0
    assert outcome.err == ""
    assert sorted(path.name for path in out.iterdir()) == sorted(
        [*PICTURES, "predicted_against_measured.png", "validation.csv", "validation.json"]
    )
    report = json.loads((out / "validation.json").read_text())
    assert {one["kernel"] for one in report["comparisons"]} >= {"l2", "packed", "cascade"}
    assert report["extrapolated"] == ["moe", "all_reduce", "nccl", "small_ops"]
    gemm = next(one for one in report["comparisons"] if one["kernel"] == "gemm")
    assert 0.005 < gemm["median"] < 0.03
    kernels = folder / "gpus" / "kernels" / "mine.json"
    again = calibrate("validate", "--profile", kernels, "--data", rows, "--json")
    assert json.loads(again.out) == report, "kernels alone are a profile too"


def test_the_fitted_profile_prices_a_run(folder: Path, tmp_path: Path) -> None:
    profile = folder / "gpus" / "mine.json"
    overrides = ["hardware=from_file", f"hardware.path={profile}", "hardware.fidelity=calibrated"]
    assert cli.run_command([*TINY, *overrides, f"hydra.run.dir={tmp_path / 'run'}"]) == 0


def test_compare_prints_constants_times_and_the_step(
    calibrate: Run, folder: Path, tmp_path: Path
) -> None:
    profile = folder / "gpus" / "mine.json"
    table, picture = tmp_path / "out.csv", tmp_path / "out.png"
    outcome = calibrate("compare", DEVICE, profile, "--csv", table, "--figure", picture)
    assert outcome.code == 0
    assert outcome.err == ""
    for text in ("constants that differ", "kernel times", "batch 64, context 2048", "total_s"):
        assert text in outcome.out
    assert "mine: extrapolated: moe, all_reduce, nccl, small_ops" in outcome.out
    frame = pd.read_csv(table)
    assert list(frame.columns) == list(compared.HEADER)
    assert set(frame["kind"]) == {CONSTANT, TIME, STEP}
    step = frame[frame["kind"] == STEP].set_index("name")
    assert step["first"].drop("total_s").sum() == pytest.approx(step["first"]["total_s"], rel=1e-4)
    assert 0.95 < step["ratio"]["total_s"] < 1.05, "the hidden device is the first one"
    assert picture.read_bytes().startswith(b"\x89PNG")
    alone = calibrate("compare", DEVICE, DEVICE)
    assert alone.code == 0
    assert "0.9" not in alone.out.split("kernel times")[1].replace("0.9 ", "")


def test_compare_pairs_every_number_of_both_profiles() -> None:
    first, second = profile_named(DEVICE), profile_named("h100_sxm")
    pairs = pairs_of(first, second)
    by_name = {(pair.kind, pair.kernel, pair.name): pair for pair in pairs}
    assert len(by_name) == len(pairs)
    sms = by_name[CONSTANT, "device", "num_sms (count)"]
    assert (sms.first, sms.second, sms.ratio) == (108, 132, 132 / 108)
    only_ampere = by_name[CONSTANT, "decode_attention", "cta_gqa_bytes_per_s"]
    assert only_ampere.second is None
    assert only_ampere.ratio is None
    assert not only_ampere.is_same
    gemm = by_name[TIME, "gemm", "m 64, n 6144, k 4096"]
    assert gemm.first == pytest.approx(float(first.device.gemm_time_s(64, 6144, 4096)))
    assert not any(pair.name.startswith("l2.") for pair in pairs), "siblings once"


def test_numbers_are_alike_up_to_one_percent() -> None:
    assert Pair(CONSTANT, "gemm", "x", 100.0, 100.9).is_same
    assert not Pair(CONSTANT, "gemm", "x", 100.0, 102.0).is_same
    assert Pair(CONSTANT, "gemm", "x", None, None).is_same
    assert Pair(CONSTANT, "gemm", "x", 0.0, 1.0).ratio is None


def test_points_of_kernels_that_a_profile_lacks_are_left_open() -> None:
    models = load_kernels(DEVICE)
    provenance = {key: value for key, value in models.provenance.items() if key != "l2"}
    lacking = replace(models, l2=None, provenance=provenance)
    found = dict(zip([point.kernel for point in points()], times_s(lacking), strict=True))
    assert found["l2"] is None
    assert found["shared_prefix"] is None
    assert found["gemm"] is not None
    assert all(time_s is not None for time_s in times_s(models))


def test_the_figure_of_a_comparison_shows_each_ratio() -> None:
    pairs = pairs_of(profile_named(DEVICE), profile_named("h200_sxm"))
    left, right = compare_figure("a", "b", pairs).axes
    times = [pair for pair in pairs if pair.kind == TIME and pair.ratio is not None]
    marks = [np.asarray(line.get_xdata())[-1] for line in left.lines if line.get_marker() == "o"]
    assert marks == [pair.ratio for pair in times]
    assert left.get_xlabel() == "time of b / time of a"
    total = next(pair for pair in pairs if pair.name == "total_s")
    bars = [patch for patch in right.patches if isinstance(patch, Rectangle)]
    heights = sum(bar.get_height() for bar in bars) / 1e3
    assert heights == pytest.approx((total.first or 0) + (total.second or 0))


def test_the_figures_of_a_calibration_show_what_was_measured(folder: Path) -> None:
    models = load_profile(folder / "gpus" / "mine.json").kernels
    file = read_rows_file(folder / "rows.jsonl")
    found = compare_rows(models, file)
    pictures = calibration_figures(models, found)
    assert list(pictures) == PICTURES
    l2, roof, heat = pictures.values()
    assert l2 is not None
    assert roof is not None
    assert heat is not None
    curve, points, _ = l2.axes[0].lines
    rates = next(one for one in found if one.kernel == "l2")
    shown = rates.columns["data_set_bytes"] / rates.measured / 1e12
    assert points.get_ydata() == pytest.approx(shown)
    assert models.l2 is not None
    assert np.asarray(curve.get_ydata())[0] == pytest.approx(
        models.l2.l2_bytes_per_s / 1e12, rel=0.01
    )
    assert l2.axes[0].get_xlabel() == "data set (MiB)"
    fastest = max(
        np.asarray(line.get_ydata(), dtype=np.float64).max() for line in roof.axes[0].lines
    )
    assert models.gemm is not None
    assert fastest < 1.1 * models.gemm.flops_per_s / 1e12
    panels = [axes for axes in heat.axes if axes.get_title()]
    assert [axes.get_title() for axes in panels] == ["contiguous", "interleaved"]
    for axes in panels:
        cells = axes.images[0].get_array()
        assert cells is not None
        assert np.nanmedian(np.ma.filled(cells, np.nan)) == pytest.approx(1.0, abs=0.02)


def test_figures_without_rows_are_not_drawn(folder: Path) -> None:
    models = load_profile(folder / "gpus" / "mine.json").kernels
    pictures = calibration_figures(models, [])
    assert pictures["l2_curve.png"] is None
    assert pictures["shared_prefix_heat_map.png"] is None


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["measure", "--device", "synthetic"], "--out"),
        (["measure", "--device", "tpu", "--out", "r.jsonl"], "invalid choice: 'tpu'"),
        (["measure", "--device", "cuda", "--out", "r.jsonl"], "pip install torch triton"),
        (
            ["measure", "--device", "cuda", "--out", "r.jsonl", "--profile", DEVICE],
            "--profile is for --device synthetic",
        ),
        (
            ["measure", "--device", "synthetic", "--out", "r.jsonl", "--budget-s", "0"],
            "must be seconds above 0",
        ),
        (
            ["measure", "--device", "synthetic", "--out", "r.jsonl", "--seed", "-1"],
            "must be a whole number from 0",
        ),
        (
            ["measure", "--device", "synthetic", "--out", "r.jsonl", "--plan", "mine"],
            "unknown plan 'mine'; allowed: auto, a100, hopper, generic",
        ),
        (
            ["measure", "--device", "synthetic", "--out", "r.jsonl", "--profile", "a100"],
            "unknown hardware profile 'a100'",
        ),
        (["fit", "--data", "no.jsonl", "--device", "mine"], "no.jsonl: No such file"),
        (["fit", "--data", "{rows}", "--device", "h200_sxm"], "h200_sxm has 132"),
        (["fit", "--data", "{rows}", "--device", "my gpu"], "must be a name or a .json path"),
        (["fit", "--data", "{rows}", "--device", "mine", "--out", "mine"], "must end in .json"),
        (["validate", "--data", "{rows}", "--profile", "h200_sxm"], "h200_sxm counts 132"),
        (["validate", "--data", "no.jsonl", "--profile", DEVICE], "no.jsonl: No such file"),
        (["compare", DEVICE], "SECOND"),
        (["compare", DEVICE, "b100"], "unknown hardware profile 'b100'"),
        (["compare", DEVICE, "no.json"], "no.json: cannot read the file"),
        (["compare", DEVICE, DEVICE, "--figure", "out.gif"], "must end in .png"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    calibrate: Run,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    line: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = str(folder / "rows.jsonl")
    outcome = calibrate(*(rows if text == "{rows}" else text for text in arguments))
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.error_line.startswith("flocksim-calibrate: error: ")
    assert line in outcome.error_line
    assert list(tmp_path.iterdir()) == []


def test_rows_of_another_run_are_kept(calibrate: Run, folder: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    before = (folder / "rows.jsonl").read_bytes()
    rows.write_bytes(before)
    outcome = calibrate("measure", "--device", "synthetic", "--out", rows, "--seed", "4")
    assert outcome.code == 2
    assert "seed 4 and not a100 seed 3" in outcome.error_line
    rows.write_bytes(before + b'{"kind": "row"}\n')
    outcome = calibrate("measure", "--device", "synthetic", "--out", rows, "--seed", "3")
    assert outcome.code == 2
    assert "missing key" in outcome.error_line
    assert rows.read_bytes() == before + b'{"kind": "row"}\n'
