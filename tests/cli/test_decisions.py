"""Decisions of routers from the command line: files, lines, mistakes."""

import json
from pathlib import Path

import pytest

from experiments.compare.command import run_command
from tests.conftest import TINY, Flocksim

BURSTS = (
    "trace=sessions",
    "trace.num_requests=120",
    "trace.rate_per_s=20",
    "trace.num_system_prompts=2",
    "trace.system_prompt_tokens=3000",
    "cluster.num_instances=8",
    "engine.num_gpu_blocks=1000",
    "routing=lmetric",
    "routing.hotspot=sliding",
    "output.decisions=true",
)
"""Few instances hold a prompt that many requests begin with."""


def test_a_run_tells_what_its_router_gave_up_and_what_its_detector_did(flocksim: Flocksim) -> None:
    run = flocksim(*BURSTS)
    assert (run.code, run.err) == (0, "")
    (decisions,) = [line for line in run.out.splitlines() if line.startswith("decisions: ")]
    (hotspots,) = [line for line in run.out.splitlines() if line.startswith("hotspots: ")]
    document = json.loads((run.directory / "result.json").read_text())
    metrics, routing = document["metrics"], document["routing"]
    assert hotspots == (
        f"hotspots: {metrics['num_hotspot_alarms']} alarms, "
        f"{metrics['num_hotspot_filters']} filters, "
        f"{metrics['num_hotspot_filtered_requests']} requests kept from the holders"
    )
    assert metrics["num_hotspot_filters"] > 0
    assert f"{100 * routing['longer_hit_elsewhere_ratio']:.1f} % had a longer hit" in decisions
    assert len(document["instances"]) == 8


def test_a_run_that_was_not_asked_says_nothing_of_decisions(flocksim: Flocksim) -> None:
    run = flocksim(*TINY)
    assert "decisions: " not in run.out
    assert "hotspots: " not in run.out


def test_two_runs_write_the_same_bytes(flocksim: Flocksim, tmp_path: Path) -> None:
    for name in ("a", "b"):
        flocksim(*BURSTS, directory=tmp_path / name)
    for name in ("result.json", "decisions.parquet", "requests.parquet"):
        first, second = (tmp_path / folder / name for folder in ("a", "b"))
        assert first.read_bytes() == second.read_bytes()


def test_windows_and_placebos_are_compared(
    flocksim: Flocksim, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = ("trace=synthetic", "trace.num_requests=60", "cluster.num_instances=4")
    for start in range(3):
        for shift in (0, 1):
            for router in ("jsq", "random"):
                flocksim(
                    *base,
                    "trace.rate_per_s=20",
                    f"routing={router}",
                    f"routing.tie_shift={shift}",
                    f"trace.window_s=[{start},{start + 1}]",
                    "output.decisions=true",
                    directory=tmp_path / "sweep" / f"{start}{shift}{router}",
                )
    capsys.readouterr()
    csv = tmp_path / "table.csv"
    command = [str(tmp_path / "sweep"), "--unit-keys", "trace.window_s", "--csv", str(csv)]
    assert run_command(command) == 0
    out = capsys.readouterr().out
    assert "Decisions: what another instance would have given" in out
    assert "every value of trace.window_s counts as a run of its own" in out
    assert "placebos (the same policy, ties falling elsewhere" in out
    header, *rows = csv.read_text().splitlines()
    assert "noise_floor" in header.split(",")
    assert len(rows) == 2 * len({row.split(",")[2] for row in rows})  # one setting, two policies


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (("output.decisions=1",), "output.decisions=1: must be true or false"),
        (("routing.tie_shift=1",), "routing.tie_shift=1: must be 0 to cluster.num_instances - 1 ="),
        (("routing.tie_shift=-1",), "routing.tie_shift=-1: must be"),
        (("routing.tie_shift=0.5",), "routing.tie_shift=0.5: must be"),
    ],
)
def test_a_mistake_is_one_line(flocksim: Flocksim, overrides: tuple[str, ...], line: str) -> None:
    run = flocksim(*TINY, "cluster.num_instances=1", *overrides)
    assert run.code == 2
    assert line in run.error_line
