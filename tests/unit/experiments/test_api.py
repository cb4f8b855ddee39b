"""flocksim from Python."""

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments import api
from sim.errors import ConfigError, FlocksimError
from tests.conftest import TINY
from tests.job_directories import request_table, write_job

DOCUMENT = Path(__file__).parents[3] / "docs" / "compare.md"


def test_a_configuration_is_composed_from_overrides() -> None:
    config = api.compose("trace.rate_scale=2", "seed=7")
    assert config["trace"]["rate_scale"] == 2
    assert config["seed"] == 7


def test_a_run_lies_where_it_was_told_to(tmp_path: Path) -> None:
    run = api.run(*TINY, "output.steps=true", directory=tmp_path / "job")
    assert run.directory == tmp_path / "job"
    assert run.status == "ok"
    assert run.metrics["num_finished"] == 40
    assert run.overrides == [*TINY, "output.steps=true"]
    assert run.steps is not None


def test_a_run_without_a_directory_lies_in_one_of_its_own() -> None:
    runs = [api.run(*TINY, f"seed={seed}", progress=False) for seed in (0, 1)]
    assert runs[0].directory != runs[1].directory
    assert runs[0].requests is not None


@pytest.mark.parametrize(
    ("override", "why"),
    [
        ("routing=nope", "unknown option: routing=nope"),
        ("trace.nope=1", "unknown key of trace: nope"),
        ("seed=0,1", "use sweep() over several values"),
        ("hydra.run.dir=x", "hydra.run.dir=x: has no effect here, give directory="),
        ("cluster.num_instances=0", "cluster.num_instances=0"),
    ],
)
def test_a_mistake_is_one_line(override: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(FlocksimError) as error:
        api.run(*TINY, override, directory=tmp_path)
    assert why in str(error.value)
    assert "\n" not in str(error.value)


def test_a_sweep_refuses_a_place_of_hydra() -> None:
    with pytest.raises(ConfigError, match=r"hydra\.sweep\.dir=x: has no effect here"):
        api.sweep("seed=0,1", "hydra.sweep.dir=x")


def test_a_sweep_has_one_launcher() -> None:
    with pytest.raises(ConfigError, match="hydra/launcher=basic: leave it out"):
        api.sweep("seed=0,1", "hydra/launcher=basic")


@pytest.mark.parametrize("call", [api.compose, api.run, api.sweep])
def test_overrides_in_a_list_are_refused(call: Callable[..., object]) -> None:
    with pytest.raises(ConfigError, match=r"\['seed=1'\]: overrides are texts such as"):
        call(["seed=1"])


def test_an_interrupted_run_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped:
        is_interrupted = True

    def stopped(*_: object, **__: object) -> Stopped:
        return Stopped()

    monkeypatch.setattr("experiments.job.run_job", stopped)
    with pytest.raises(KeyboardInterrupt):
        api.run(*TINY, directory=tmp_path)


@pytest.fixture
def two(tmp_path: Path) -> Path:
    for scale in (1, 2):
        table = request_table(first_token_s=[0.5, 1.0], finish_s=[1.5, 4.0])
        write_job(tmp_path / str(scale), f"trace.rate_scale={scale}", requests=table)
    return tmp_path


def test_requests_of_all_runs_carry_their_labels(two: Path) -> None:
    frame = api.requests(api.load(two))
    assert frame["run"].tolist() == ["1", "1", "2", "2"]
    assert frame["trace.rate_scale"].tolist() == [1.0, 1.0, 2.0, 2.0]
    assert frame["policy"].unique().tolist() == ["round_robin"]
    assert frame["ttft_s"].tolist() == [0.5, 1.0] * 2
    assert frame["tpot_s"].tolist() == pytest.approx([0.1, 0.3] * 2)
    assert frame["is_good"].tolist() == [True, False] * 2


def test_steps_that_were_not_written_are_asked_for(two: Path) -> None:
    runs = api.load(two)
    with pytest.raises(FlocksimError, match=r"1: has no steps\.parquet: .* output\.steps=true"):
        api.steps(runs)
    with pytest.raises(FlocksimError, match=r"2: has no steps\.parquet: .* output\.steps=true"):
        _ = runs[1].steps


def test_jobs_that_could_not_run_have_no_steps(tmp_path: Path) -> None:
    runs = api.sweep(*TINY, "output.steps=true", "engine.num_gpu_blocks=null,1", directory=tmp_path)
    assert [run.status for run in runs] == ["ok", "infeasible"]
    assert set(api.steps(runs)["run"]) == {"0"}


def test_a_run_is_shown_in_one_short_line(tmp_path: Path) -> None:
    (run,) = api.load(write_job(tmp_path / "job", "routing=jsq"))
    assert repr(run) == f"Run('{tmp_path}/job', status='ok', policy='jsq + fcfs')"


def test_a_figure_over_one_rate_is_refused(two: Path) -> None:
    with pytest.raises(FlocksimError, match="no offered rate: it takes requests"):
        api.plot(api.load(two), "latency_vs_rate")


def test_metrics_and_comparison_are_those_of_the_command(two: Path) -> None:
    runs = api.load(two / "1", two / "2")
    assert api.metrics(runs)["ttft_mean_s"].tolist() == [0.1, 0.1]
    table = api.compare(runs)
    assert table["trace.rate_scale"].tolist() == [1.0, 2.0]
    assert table["mean"].tolist() == [0.1, 0.1]


def test_a_copy_counts_once(two: Path) -> None:
    runs = api.load(two)
    assert api.compare([*runs, *runs])["num_runs"].tolist() == [1, 1]


def test_the_report_is_printed(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    api.report(api.load(two), metrics=["ttft_mean"])
    assert capsys.readouterr().out.startswith("setting")


def test_one_name_need_not_stand_in_a_list(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = api.load(two)
    api.report(runs, metrics="ttft_mean")
    assert "TTFT mean" in capsys.readouterr().out
    policies = api.compare(runs, policy_keys="trace.rate_scale")["policy"]
    assert policies.tolist() == ["round_robin rate_scale=1", "round_robin rate_scale=2"]


def test_the_example_of_the_manual_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert len(ast.parse(code).body) <= 5
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(code, names)
    assert (tmp_path / "latency_vs_rate.png").stat().st_size > 1_000
    runs = names["runs"]
    assert isinstance(runs, list)
    assert [run.status for run in runs] == ["ok"] * 8


def test_every_function_is_in_the_manual() -> None:
    text = DOCUMENT.read_text()
    for name in api.__all__:
        function: Callable[..., object] = getattr(api, name)
        assert f"`{function.__name__}(" in text
