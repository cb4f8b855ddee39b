"""The command `flocksim-capacity`: answers, files, going on, mistakes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from experiments.capacity import cli
from experiments.capacity.steady import steady_rate_of
from tests.conftest import TINY, Outcome

Capacity = Callable[..., Outcome]

JOB = (*TINY, "trace.num_requests=120", "cluster.num_instances=2", "--tolerance", "0.2")


@pytest.fixture
def capacity(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Capacity:
    """Runs the command in this process; results go to `tmp_path / "out"`."""

    def run(*arguments: str) -> Outcome:
        capsys.readouterr()
        code = cli.run_command([*arguments, "--workers", "1", "--dir", str(tmp_path / "out")])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err, tmp_path / "out")

    return run


def answer(run: Outcome) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((run.directory / "capacity.json").read_text())
    return document


def test_the_answer_lies_between_a_rate_that_holds_and_one_that_does_not(
    capacity: Capacity,
) -> None:
    run = capacity(*JOB, "--policies", "routing=jsq,random")
    assert (run.code, run.err) == (0, "")
    document = answer(run)
    assert document["attainment_ratio"] == 0.99
    assert document["slo"] == {"ttft_s": 2.0, "tpot_s": 0.1}
    for policy, row in zip(document["policies"], run.out.splitlines()[2:4], strict=True):
        low, high = policy["low"], policy["high"]
        assert low["is_sustained"]
        assert not high["is_sustained"]
        assert low["rate_scale"] < high["rate_scale"] <= 1.2 * low["rate_scale"]
        assert low["slo_attainment_ratio"] >= 0.99
        assert policy["num_runs"] == len(policy["points"])
        rates = f"{low['offered_rate_per_s']:.4g} - {high['offered_rate_per_s']:.4g}"
        assert row.startswith(policy["policy"])
        assert rates in row
        assert f"{100 * low['slo_attainment_ratio']:.2f} % (met)" in row
        if high["why_not"] == "SLO":
            assert f"SLO met by {100 * high['slo_attainment_ratio']:.2f} % (missed)" in row
    assert [policy["policy"] for policy in document["policies"]] == ["jsq", "random"]


def test_every_point_is_a_job_directory_and_is_not_simulated_again(
    capacity: Capacity, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = capacity(*JOB, "--seeds", "2")
    text = (first.directory / "capacity.json").read_text()
    keys = {key for point in answer(first)["policies"][0]["points"] for key in point["job_keys"]}
    stored = {
        json.loads(path.read_text())["job_key"] for path in first.directory.rglob("result.json")
    }
    assert keys == stored

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("simulated again")

    monkeypatch.setattr("experiments.job.simulate", fail)
    again = capacity(*JOB, "--seeds", "2")
    assert again.out == first.out
    assert (again.directory / "capacity.json").read_text() == text


def test_the_slo_of_the_command_line_is_that_of_the_jobs(capacity: Capacity) -> None:
    run = capacity(*JOB, "--slo-ttft", "0.5", "--slo-tpot", "0.02", "--attainment", "0.5")
    assert answer(run)["slo"] == {"ttft_s": 0.5, "tpot_s": 0.02}
    path = next(run.directory.rglob("result.json"))
    assert json.loads(path.read_text())["config"]["slo"] == {"ttft_s": 0.5, "tpot_s": 0.02}
    assert "0.5 of the requests meet TTFT <= 0.5 s and TPOT <= 0.02 s" in run.out


def test_a_harder_slo_has_a_lower_capacity(capacity: Capacity) -> None:
    easy, hard = (
        answer(capacity(*JOB, "--slo-tpot", slo))["policies"][0]["low"]["rate_scale"]
        for slo in ("0.1", "0.02")
    )
    assert hard < easy


def test_an_slo_that_no_rate_meets_is_said_so(capacity: Capacity) -> None:
    run = capacity(*JOB, "--slo-ttft", "1e-6")
    assert run.code == 0
    (policy,) = answer(run)["policies"]
    assert policy["low"] is None
    assert policy["num_runs"] == 4
    assert "none down to" in run.out
    assert (
        "note: as given: no rate is sustained; at the lowest one 0.00 % of the requests" in run.out
    )


def test_floods_of_several_seeds_have_an_interval(capacity: Capacity) -> None:
    run = capacity(*TINY, "--flood", "--seeds", "3", "--policies", "routing=jsq,round_robin")
    assert run.code == 0
    for policy in answer(run)["policies"]:
        assert len(policy["rates_per_s"]) == policy["num_runs"] == 3
        assert policy["flood_rate_per_s"] == pytest.approx(sum(policy["rates_per_s"]) / 3)
        assert policy["half_width_95_per_s"] > 0
    assert "±" in run.out


def test_a_flood_that_is_all_drain_is_said_so(capacity: Capacity) -> None:
    run = capacity(*TINY, "--flood", "--policies", "engine.max_num_seqs=2,256")
    steady, drained = answer(run)["policies"]
    assert (steady["does_drain_dominate"], drained["does_drain_dominate"]) == ([False], [True])
    for policy, number in ((steady, 2), (drained, 256)):
        place = run.directory / f"engine.max_num_seqs={number}" / "trace.flood=true" / "seed=0"
        table = pd.read_parquet(place / "requests.parquet")
        assert policy["flood_rate_per_s"] == steady_rate_of(table).rate_per_s
        metrics = json.loads((place / "result.json").read_text())["metrics"]
        is_whole = policy["flood_rate_per_s"] == metrics["request_rate_per_s"]
        assert is_whole == (policy is drained)
        assert metrics["request_rate_per_s"] == 40 / metrics["makespan_s"]
    (note,) = [line for line in run.out.splitlines() if line.startswith("note: ")]
    assert note.startswith("note: 256: drain dominates")


def test_a_flood_of_replications_is_their_mean(capacity: Capacity) -> None:
    job = (*TINY, "engine.max_num_seqs=2", "replications=2")
    (policy,) = answer(capacity(*job, "--flood"))["policies"]
    (path,) = (capacity(*job, "--flood").directory).rglob("requests.parquet")
    parts = [steady_rate_of(rows) for _, rows in pd.read_parquet(path).groupby("replication")]
    rates = [one.rate_per_s or 0.0 for one in parts]
    assert rates[0] != rates[1]
    assert policy["flood_rate_per_s"] == pytest.approx(sum(rates) / 2)


def test_seeds_of_a_recording_are_refused(capacity: Capacity, mooncake_file: Path) -> None:
    job = ("trace=mooncake", f"trace.path={mooncake_file}", "--flood")
    run = capacity(*job, "--seeds", "3")
    assert (run.code, run.out, run.directory.exists()) == (2, "", False)
    assert run.error_line == (
        "flocksim: error: --seeds 3: this trace is a recording, the same requests for every seed; "
        "give replications=3 instead, which draws its stretches anew"
    )
    assert capacity(*job).code == 0
    assert capacity(*job, "--seeds", "2", "trace.poissonise=true").code == 0


def test_the_rate_is_that_of_one_replication_after_its_warm_up(capacity: Capacity) -> None:
    run = capacity(*JOB, "replications=2", "trace.warmup_requests=50")
    low = answer(run)["policies"][0]["low"]
    place = f"as_given/trace.rate_scale={low['rate_scale']!r}/seed=0"
    table = pd.read_parquet(run.directory / place / "requests.parquet")
    late = table[table["request_id"] >= 50]
    spans_s = late.groupby("replication")["arrival_s"].agg(lambda times: times.max() - times.min())
    assert low["offered_rate_per_s"] == pytest.approx((70 / spans_s).mean(), rel=1e-12)


def test_a_policy_that_cannot_run_does_not_stop_the_others(capacity: Capacity) -> None:
    run = capacity(*JOB, "--policies", "engine.max_num_seqs=0,8")
    assert run.code == 2
    assert run.error_line.startswith("flocksim: error: 0: engine.max_num_seqs=0: must be")
    row = next(line for line in run.out.splitlines() if line.startswith("0 "))
    assert row.split() == ["0", "-", "-", "-", "cannot", "run", "0"]
    bad, good = answer(run)["policies"]
    assert bad["error"]
    assert good["error"] is None
    assert good["low"]["rate_scale"] > 0


def test_users_have_no_rate_to_search_for(capacity: Capacity) -> None:
    run = capacity(*JOB, "trace.replay_concurrency=4")
    assert run.code == 2
    assert "trace.replay_concurrency" in run.error_line


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--attainment", "2"], "--attainment=2.0: must be a finite number > 0 and <= 1"),
        (["--tolerance", "0"], "--tolerance=0.0: must be a finite number >= 0.0001"),
        (["--seeds", "0"], "--seeds=0: must be an integer >= 1"),
        (["--slo-ttft", "-1"], "--slo-ttft=-1.0: must be a finite number > 0"),
        (["--slo-ttft", "soon"], "argument --slo-ttft: invalid float value: 'soon'"),
        (["--flood", "--max-rate"], "not allowed with argument"),
        (["--flood", "--attainment", "0.9"], "--attainment has no effect with --flood"),
        (["--max-rate", "--slo-ttft", "1"], "--slo-ttft has no effect with --max-rate"),
        (["--flood", "--tolerance", "0.1"], "--tolerance has no effect with --flood"),
        (["--policies", "routing"], "--policies routing: must be like"),
        (["trace.load=0.7"], "trace.load=0.7: leave it out, the search sets the rate"),
        (["hydra.run.dir=x"], "flocksim-capacity has --dir and --workers instead"),
        (["routing=nope"], "routing=nope; allowed:"),
        (["no_such=1"], "unknown key"),
        (["seed=0,1"], "'seed=0,1': use --policies or --seeds, or quote"),
        (["--no-such"], "unrecognized arguments: --no-such"),
    ],
)
def test_mistakes_end_in_one_line(arguments: list[str], told: str, capacity: Capacity) -> None:
    run = capacity(*TINY, *arguments)
    assert (run.code, run.out) == (2, "")
    assert told in run.error_line
    assert not run.directory.exists()


def test_help_shows_examples(capacity: Capacity) -> None:
    run = capacity("--help")
    assert run.code == 0
    assert run.out.count("flocksim-capacity") > 5
    assert "--attainment RATIO" in run.out


def test_ctrl_c_says_how_to_go_on(capacity: Capacity, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("experiments.job.simulate", interrupted)
    run = capacity(*JOB)
    assert run.code == 130
    assert f"--dir {run.directory} goes on" in run.error_line
