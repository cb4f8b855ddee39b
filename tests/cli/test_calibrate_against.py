"""`flocksim-calibrate against`: hidden constants are found again, files, mistakes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments import api
from experiments.calibrate import command
from experiments.calibrate.against import report, tables
from hwmodels.device import load_profile
from tests.conftest import Outcome
from tests.unit.experiments.measured_files import (
    FIDELITY,
    HARDWARE,
    MODEL,
    guidellm_report,
    hidden_profile,
    measured_rows,
    vllm_result,
)

Run = Callable[..., Outcome]

SERVER = ("--model", MODEL, "--hardware", HARDWARE, FIDELITY)

HIDDEN = {"step_overhead_s": 3e-3}
OFFSET_S = 0.02
NOISE = 0.05


@pytest.fixture
def against(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in this process; results go to `tmp_path / "out"`."""

    def run(*arguments: str | Path, directory: Path = tmp_path / "out") -> Outcome:
        capsys.readouterr()
        code = command.run_command(["against", *map(str, arguments), "--out", str(directory)])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err, directory)

    return run


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Requests of a server whose host takes 3 ms a step, 20 ms away."""
    profile = hidden_profile(tmp_path_factory.mktemp("hidden"), **HIDDEN)
    return measured_rows(profile, OFFSET_S, NOISE)


@pytest.fixture(scope="module")
def run_file(rows: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("measured") / "run.json"
    path.write_text(json.dumps(vllm_result(rows)))
    return path


@pytest.fixture(scope="module")
def fitted(run_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a fit writes."""
    out = tmp_path_factory.mktemp("fit") / "mine"
    arguments = [str(run_file), *SERVER, "--date", "2026-01-02", "--out", str(out)]
    assert command.run_command(["against", *arguments]) == 0
    return out


def document(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "against.json").read_text())
    return found


def test_a_fit_finds_the_hidden_constants(fitted: Path) -> None:
    found = document(fitted)["fit"]["constants"]
    assert found["step_overhead_s"]["before_s"] == 1e-3
    assert found["step_overhead_s"]["after_s"] == pytest.approx(HIDDEN["step_overhead_s"], rel=0.03)
    assert found["ttft_offset_s"]["after_s"] == pytest.approx(OFFSET_S, rel=0.08)
    assert not found["step_overhead_request_s"]["is_identified"]
    assert found["step_overhead_request_s"]["after_s"] == 0


def test_the_error_on_requests_held_out_falls_to_that_of_the_noise(fitted: Path) -> None:
    fit = document(fitted)["fit"]
    assert (fit["num_requests_fit"], fit["num_requests_heldout"]) == (120, 120)
    assert fit["num_simulations"] <= 65
    before, after = fit["error_before"], fit["error_after"]
    assert before["tpot_ratio"] > 0.15
    assert after["tpot_ratio"] < 0.01
    assert before["ttft_ratio"] > 0.3
    assert after["ttft_ratio"] < 0.04
    assert after["e2e_ratio"] < 0.02
    mean = fit["heldout_figures"]["itl_mean_s"]
    assert abs(mean["error_after_ratio"]) < 0.01 < abs(mean["error_before_ratio"])


def test_host_time_per_request_is_told_from_that_per_step(against: Run, tmp_path: Path) -> None:
    hidden = {"step_overhead_s": 0.48e-3, "step_overhead_request_s": 1e-4}
    rows = measured_rows(hidden_profile(tmp_path, **hidden), OFFSET_S, NOISE)
    path = tmp_path / "run.json"
    path.write_text(json.dumps(vllm_result(rows)))
    outcome = against(path, *SERVER, "--json")
    assert outcome.code == 0
    found = json.loads(outcome.out)["fit"]["constants"]
    for name, value in hidden.items():
        tolerance = max(0.1 * value, 4 * found[name]["standard_error_s"])
        assert found[name]["after_s"] == pytest.approx(value, abs=tolerance)


def test_the_overlay_is_a_profile_that_flocksim_reads(fitted: Path) -> None:
    record = json.loads((fitted / "overlay.json").read_text())
    assert list(record) == [
        "overlay_of",
        "name",
        "date",
        "constants",
        "fidelity",
        "error_before",
        "error_after",
        "num_requests_fit",
        "num_requests_heldout",
    ]
    assert (record["overlay_of"], record["name"], record["date"]) == (
        HARDWARE,
        "mine",
        "2026-01-02",
    )
    assert record["fidelity"] == "roofline"
    assert list(record["constants"]) == ["step_overhead_s"], "what was not identified is not there"
    assert "fitted to 120 requests of run.json" in record["constants"]["step_overhead_s"]["source"]
    fit = document(fitted)["fit"]
    assert record["error_after"] == fit["error_after"]
    value = fit["constants"]["step_overhead_s"]["after_s"]
    assert load_profile(fitted / "overlay.json").step_overhead_s == value


@pytest.mark.parametrize(
    "more",
    [
        (),
        ("engine=sglang", "engine.max_num_seqs=24"),
        ("--instances", "2", "routing=round_robin"),
    ],
)
def test_the_overrides_told_at_the_end_give_the_fitted_latencies(
    against: Run, fitted: Path, run_file: Path, more: tuple[str, ...]
) -> None:
    if more:
        fitted = against(run_file, *SERVER, *more).directory
    found = document(fitted)
    overrides = found["overrides_with_fit"]
    assert "frontend.request_s=0" in overrides
    trace = ("trace=vllm_bench", f"trace.path={run_file}")
    run = api.run(*trace, *overrides, progress=False)
    table = run.requests
    assert table is not None
    heldout = table[table["request_id"] % 2 == 1]
    ttft_s = heldout["first_token_s"] - heldout["arrival_s"]
    if "first_token_delivered_s" in table:
        ttft_s = heldout["first_token_delivered_s"] - heldout["arrival_s"]
    stated = found["fit"]["heldout_figures"]["ttft_mean_s"]["after"]
    assert ttft_s.mean() == pytest.approx(stated, rel=1e-6)


def test_constants_fitted_at_another_fidelity_are_flagged(fitted: Path) -> None:
    profile = ("hardware=from_file", f"hardware.path={fitted / 'overlay.json'}")
    few = ("model=llama3_8b", "trace.num_requests=5", *profile)
    (flag,) = (
        one
        for one in api.run(*few, progress=False).document["flags"]
        if one["flag"] == "overlay_of_other_fidelity"
    )
    assert flag["fidelity"] == "roofline"
    assert "hardware.fidelity=roofline" in flag["text"]
    same = api.run(*few, FIDELITY, progress=False).document["flags"]
    assert not any(one["flag"] == "overlay_of_other_fidelity" for one in same)


def test_a_server_that_is_faster_than_the_simulated_gpu_is_told_so(
    against: Run, rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    fast = [
        {**row, "ttft": 0.5 * row["ttft"], "itls": [0.5 * gap for gap in row["itls"]]}
        for row in rows
    ]
    path = tmp_path / "run.json"
    path.write_text(json.dumps(vllm_result(fast)))
    outcome = against(path, *SERVER)
    assert outcome.code == 0
    (note,) = (line for line in outcome.out.splitlines() if "host time cannot mend" in line)
    assert note.startswith("note: host time cannot mend this: the simulated GPU is slower than")
    assert "a run at other rates may" not in outcome.out


def test_a_metric_that_the_fit_makes_worse_is_told_before_the_overrides(
    against: Run, run_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = iter(
        [{"ttft_ratio": 0.2, "tpot_ratio": 0.01}, {"ttft_ratio": 0.02, "tpot_ratio": 0.03}] * 9
    )
    monkeypatch.setattr(report, "errors_of", lambda *_: next(errors))
    monkeypatch.setattr(tables, "heldout_errors", report.heldout_errors)
    outcome = against(run_file, *SERVER)
    assert outcome.code == 0
    line = "note: with the fitted constants the error is larger for: TPOT 1.0 % before, 3.0 % after"
    before, _, after = outcome.out.partition(line)
    assert "to simulate with the fitted constants" in after
    assert "to simulate with" not in before


def test_the_same_run_gives_the_same_bytes(
    against: Run, fitted: Path, run_file: Path, tmp_path: Path
) -> None:
    again = against(
        run_file, *SERVER, "--date", "2026-01-02", directory=tmp_path / "again" / "mine"
    )
    for name in ("overlay.json", "against.png"):
        assert (again.directory / name).read_bytes() == (fitted / name).read_bytes()
    mine, theirs = document(again.directory), document(fitted)
    mine.pop("overrides_with_fit")  # names the directory
    theirs.pop("overrides_with_fit")
    assert mine == theirs


def test_measured_stands_beside_simulated(
    against: Run, run_file: Path, rows: list[dict[str, Any]]
) -> None:
    outcome = against(run_file, *SERVER, "--no-fit")
    assert (outcome.code, outcome.err) == (0, "")
    figures = document(outcome.directory)["figures"]
    ttft_s = np.array([row["ttft"] for row in rows])
    gaps_s = np.concatenate([row["itls"] for row in rows])
    assert figures["ttft_p90_s"]["measured"] == pytest.approx(np.percentile(ttft_s, 90))
    assert figures["itl_mean_s"]["measured"] == pytest.approx(gaps_s.mean())
    assert figures["itl_p99_s"]["measured"] == pytest.approx(np.percentile(gaps_s, 99))
    assert figures["tpot_mean_s"]["error_ratio"] == pytest.approx(-0.17, abs=0.02)
    ends_s = np.array([row["start"] + row["ttft"] + sum(row["itls"]) for row in rows])
    span_s = ends_s.max() - min(row["start"] for row in rows)
    num_tokens = sum(row["output"] for row in rows)
    assert figures["output_tokens_per_s"]["measured"] == pytest.approx(num_tokens / span_s)
    for text in ("TTFT p99", "ITL mean", "E2E p50", "output", "finished"):
        assert text in outcome.out
    assert sorted(path.name for path in outcome.directory.iterdir()) == [
        "against.json",
        "against.png",
    ]
    assert document(outcome.directory)["fit"] is None


@pytest.mark.parametrize("more", [(), ("frontend.enabled=true", "frontend.output_token_s=2e-4")])
def test_the_replay_is_that_of_the_same_file_as_a_trace(
    against: Run, run_file: Path, more: tuple[str, ...]
) -> None:
    outcome = against(run_file, *SERVER, *more, "--no-fit")
    run = api.run(
        "trace=vllm_bench",
        f"trace.path={run_file}",
        f"model={MODEL}",
        f"hardware={HARDWARE}",
        FIDELITY,
        "cluster.num_instances=1",
        *more,
        progress=False,
    )
    for name, pair in document(outcome.directory)["figures"].items():
        assert pair["simulated"] == pytest.approx(run.metrics[name], rel=1e-9), name


def test_a_profile_that_is_right_gains_nothing_and_is_told_so(
    against: Run, run_file: Path, tmp_path: Path
) -> None:
    profile = hidden_profile(tmp_path, **HIDDEN)
    outcome = against(run_file, "--model", MODEL, "--hardware", profile, FIDELITY)
    assert outcome.code == 0
    found = document(outcome.directory)["fit"]["constants"]["step_overhead_s"]
    assert found["before_s"] == 3e-3
    assert found["after_s"] == pytest.approx(3e-3, rel=0.03)
    record = json.loads((outcome.directory / "overlay.json").read_text())
    assert record["overlay_of"] == HARDWARE, "an overlay lies on the profile below"


def test_a_base_of_the_users_own_is_named_from_the_overlay(
    against: Run, run_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib.resources import files

    text = (files("hwmodels") / "profiles" / f"{HARDWARE}.json").read_text()
    (tmp_path / "gpu.json").write_text(text)
    monkeypatch.chdir(tmp_path)
    outcome = against(run_file, "--model", MODEL, "--hardware", "gpu.json", FIDELITY)
    assert outcome.code == 0
    record = json.loads((outcome.directory / "overlay.json").read_text())
    assert record["overlay_of"] == "../gpu.json"
    assert load_profile(outcome.directory / "overlay.json").step_overhead_s > 2e-3


def test_overrides_may_stand_anywhere_and_reach_the_simulator(
    against: Run, run_file: Path, tmp_path: Path
) -> None:
    slow = against(
        run_file, "engine.max_num_seqs=4", *SERVER, "cluster.num_instances=1", "--no-fit"
    )
    assert slow.code == 0
    figures = document(slow.directory)["figures"]
    assert figures["ttft_mean_s"]["error_ratio"] > 1, "requests must have queued for four seats"
    two = against(run_file, *SERVER, "--instances", "2", "--no-fit", directory=tmp_path / "two")
    one = against(run_file, *SERVER, "--no-fit", directory=tmp_path / "one")
    tpots = [document(run.directory)["figures"]["tpot_mean_s"]["simulated"] for run in (two, one)]
    assert tpots[0] < tpots[1], "half as many requests decode together"


def test_the_offset_is_on_top_of_the_front_end_that_is_configured(
    against: Run, run_file: Path, tmp_path: Path
) -> None:
    front_end = ("frontend.enabled=true", "frontend.delay_s=0.012", "frontend.request_s=0")
    outcome = against(run_file, *SERVER, *front_end, directory=tmp_path / "with")
    assert outcome.code == 0
    without = against(run_file, *SERVER, "--no-fit", directory=tmp_path / "without")
    ttft_s = [
        document(run.directory)["figures"]["ttft_mean_s"]["simulated"] for run in (outcome, without)
    ]
    assert ttft_s[0] > ttft_s[1] + 0.012, "the delay, and work on the way in and out"
    found = document(outcome.directory)
    offset_s = found["fit"]["constants"]["ttft_offset_s"]["after_s"]
    assert 0 < offset_s < 0.012
    overrides = found["overrides_with_fit"]
    (delay,) = [item for item in overrides if item.startswith("frontend.delay_s=")]
    assert float(delay.partition("=")[2]) == pytest.approx(0.012 + offset_s, rel=1e-4)
    assert overrides.count("frontend.request_s=0") == 1, "constants that were given are kept"
    assert "frontend.token_s=0" not in overrides, "and so are those left to their defaults"
    assert overrides.count("frontend.enabled=true") == 1


def test_failed_requests_are_told(against: Run, rows: list[dict[str, Any]], tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    errors = ["timeout"] * 3 + [""] * (len(rows) - 3)
    path.write_text(json.dumps(vllm_result(rows, errors=errors)))
    outcome = against(path, *SERVER, "--no-fit")
    assert "note: 3 of 240 requests failed when measured" in outcome.out
    assert document(outcome.directory)["run"]["num_failed"] == 3


def test_a_file_without_gaps_compares_the_rest(
    against: Run, rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(guidellm_report(rows)))
    outcome = against(path, *SERVER, "--no-fit")
    assert outcome.code == 0
    assert "note: ITL is not compared: the file holds no gaps" in outcome.out
    figures = document(outcome.directory)["figures"]
    assert "tpot_p99_s" in figures
    assert "itl_mean_s" not in figures


def test_requests_too_long_for_the_replay_are_told(against: Run, run_file: Path) -> None:
    outcome = against(run_file, *SERVER, "--no-fit", "engine.max_model_len=500")
    assert outcome.code == 0
    assert "requests are refused in the replay" in outcome.out
    none = against(run_file, *SERVER, "--no-fit", "engine.max_model_len=20")
    assert none.code == 2
    assert "finishes none of the requests" in none.error_line


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["RUN", "--model", MODEL], "--hardware"),
        (["RUN", "--hardware", HARDWARE], "--model"),
        (["none.json", *SERVER], "none.json: no such file"),
        (["CUT", *SERVER], "cut.json:1: not valid JSON"),
        (["OTHER", *SERVER], "--format NAME, one of vllm_bench, guidellm, aiperf, csv"),
        (["RUN", "--model", "llama9", "--hardware", HARDWARE], "model=llama9"),
        (["RUN", "--model", MODEL, "--hardware", "a10"], "hardware=a10"),
        (["RUN", "--model", MODEL, "--hardware", "a10.json"], "a10.json: cannot read the file"),
        (["RUN", *SERVER, "trace.limit=5"], "trace.limit=5: has no effect"),
        (["RUN", *SERVER, "trace=mooncake"], "trace=mooncake: has no effect"),
        (["RUN", *SERVER, "+trace@trace.parts.a.trace=csv"], "has no effect"),
        (["RUN", *SERVER, "slo.ttft_s=1"], "slo.ttft_s=1: has no effect"),
        (["RUN", *SERVER, "output.steps=true"], "output.steps=true: has no effect"),
        (["RUN", *SERVER, "replications=2"], "replications=2: has no effect"),
        (["RUN", *SERVER, "hydra.run.dir=x"], "hydra.run.dir=x: has no effect"),
        (["RUN", *SERVER, "engine.seats=2"], "unknown key of engine: seats"),
        (["RUN", *SERVER, "seed=1,2"], "seed=1,2': one value at a time"),
        (["RUN", *SERVER, "model=llama3_70b"], "model=llama3_70b: say --model instead"),
        (
            ["RUN", *SERVER, "--instances", "2", "cluster.num_instances=3"],
            "cluster.num_instances=3: cannot be given together with --instances 2",
        ),
        (["RUN", "other.json", *SERVER], "other.json: is no override KEY=VALUE"),
        (["RUN", *SERVER, "--tensor-parallel", "3"], "tensor_parallel"),
        (["RUN", *SERVER, "--instances", "0"], "cluster.num_instances"),
        (["RUN", *SERVER, "--run", "0"], "--run 0"),
        (["RUN", *SERVER, "--run", "2"], "not number 2"),
        (["RUN", *SERVER, "--format", "mooncake"], "invalid choice"),
        (["RUN", *SERVER, "--date", "today"], "must be a date"),
        (["RUN", *SERVER, "--no-fit", "--date", "2026-01-01"], "has no effect with --no-fit"),
        (["FEW", *SERVER], "6 requests are too few to fit"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    against: Run,
    run_file: Path,
    rows: list[dict[str, Any]],
    tmp_path: Path,
    arguments: list[str],
    line: str,
) -> None:
    few = tmp_path / "few.json"
    few.write_text(json.dumps(vllm_result(rows[:6])))
    cut = tmp_path / "cut.json"
    cut.write_text(run_file.read_text()[:-40])
    other = tmp_path / "other.csv"
    other.write_text("time,input,output,user\n1,2,3,4\n")
    places = {"RUN": str(run_file), "FEW": str(few), "CUT": str(cut), "OTHER": str(other)}
    outcome = against(*(places.get(item, item) for item in arguments))
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.error_line.startswith("flocksim-calibrate: error: ")
    assert line in outcome.error_line
    assert "columns." not in outcome.error_line, "options of traces mean nothing here"
    assert not (outcome.directory / "against.json").exists()


def test_help_has_examples_within_100_columns(against: Run) -> None:
    outcome = against("--help")
    assert outcome.code == 0
    assert "flocksim-calibrate against run.json --model" in outcome.out
    assert max(map(len, outcome.out.splitlines())) <= 100
