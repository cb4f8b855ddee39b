"""Runs: budget, resumption, failures, interruption. The clock is the device's own."""

from pathlib import Path

import pytest

from hwmodels.microbench.case import Case
from hwmodels.microbench.errors import MicrobenchError
from hwmodels.microbench.harness import Outcome
from hwmodels.microbench.row_format import Measurement
from hwmodels.microbench.rows import read_rows
from hwmodels.microbench.run import run_plan
from tests.unit.hwmodels.microbench.stand_in import StandIn


def run(
    device: StandIn, path: Path, budget_s: float = 1e6, lines: list[str] | None = None
) -> Outcome:
    said = [] if lines is None else lines
    return run_plan(
        device, path, deadline_s=device.now_s + budget_s, clock=device.clock, say=said.append
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.jsonl"


def test_all_cases_are_measured_when_there_is_time(path: Path) -> None:
    outcome = run(StandIn(), path)
    found = read_rows(path)
    assert outcome.num_measured == outcome.num_planned == len(found.rows)
    assert next(iter(found.rows.values())).took_s == pytest.approx(0.1)


@pytest.mark.parametrize("took_s", [0.01, 0.3, 5.0])
def test_a_budget_is_not_exceeded_whatever_the_pace(path: Path, took_s: float) -> None:
    device = StandIn(took_s=took_s)
    outcome = run(device, path, budget_s=30)
    assert device.now_s <= 30
    assert outcome.num_measured + outcome.num_left_out == outcome.num_planned
    assert outcome.num_measured > 0.3 * min(outcome.num_planned, 30 / took_s)


def test_a_second_run_measures_only_what_is_left(path: Path) -> None:
    first = run(StandIn(), path, budget_s=20)
    device = StandIn()
    second = run(device, path)
    assert 0 < first.num_measured < first.num_planned
    assert second.num_there == first.num_measured
    assert len(device.measured) == first.num_left_out
    assert len(read_rows(path).rows) == first.num_planned


def test_a_failed_case_leaves_a_line_and_is_tried_again(path: Path) -> None:
    lines: list[str] = []
    outcome = run(StandIn(fails_at=3), path, lines=lines)
    assert outcome.num_failed == 1
    (failure,) = read_rows(path).failures.values()
    assert failure.why == "wrong result"
    assert any(line.endswith(f"{failure.case.id}: failed: wrong result") for line in lines)
    again = StandIn()
    run(again, path)
    assert again.measured == [failure.case]
    assert not read_rows(path).failures


def test_an_interrupted_run_keeps_its_rows(path: Path) -> None:
    lines: list[str] = []
    outcome = run(StandIn(interrupted_at=5), path, lines=lines)
    assert outcome.is_interrupted
    assert len(read_rows(path).rows) == outcome.num_measured == 5
    assert lines[-1] == (
        f"5 cases measured; {outcome.num_planned - 5} left for another run with the same --out"
    )


def test_each_case_gets_a_line_and_the_end_a_table(path: Path) -> None:
    lines: list[str] = []
    outcome = run(StandIn(), path, lines=lines)
    assert len(lines) == outcome.num_planned + 3
    assert lines[1].startswith(f"[1/{outcome.num_planned}, ")
    assert lines[1].endswith("20 us (10 us to 30 us)")
    table = lines[-2].splitlines()
    assert table[0].split()[:3] == ["case", "rows", "failed"]
    assert [line.split()[0] for line in table[1:3]] == ["stream", "shared_prefix"]


def test_a_device_that_is_lost_ends_the_run_and_keeps_the_rows(path: Path) -> None:
    class Lost(StandIn):
        def measure(self, case: Case) -> Measurement:
            if len(self.measured) == 4:
                raise MicrobenchError("the GPU does not answer any more")
            return super().measure(case)

    with pytest.raises(MicrobenchError, match="does not answer"):
        run(Lost(), path)
    assert len(read_rows(path).rows) == 4
