"""One run: header, plan, cases, summary."""

import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

from hwmodels.microbench.harness import Device, Outcome, measure_plan
from hwmodels.microbench.plans import plan_of, planned_cases
from hwmodels.microbench.row_format import Header
from hwmodels.microbench.rows import RowsWriter, read_rows
from hwmodels.microbench.summary import summary_table


def run_plan(
    device: Device,
    path: Path,
    *,
    plan_name: str = "auto",
    seed: int = 0,
    deadline_s: float,
    clock: Callable[[], float] = time.monotonic,
    say: Callable[[str], None] = print,
) -> Outcome:
    """Measure what a rows file lacks, then print what it holds.

    Args:
        device: measures.
        path: the rows file; made, or gone on with.
        plan_name: of `PLANS`, or auto.
        seed: of the order of cases.
        deadline_s: when the last case must be done, on `clock`.
        clock: seconds that never go back.
        say: prints a line or a table.

    Raises:
        MicrobenchError: the plan does not fit the device, the file holds other rows or is broken,
            or the device is lost. Rows are kept.
    """
    plan = plan_of(plan_name, device.info)
    header = Header(
        device=device.info,
        versions=device.versions,
        date=date.today().isoformat(),
        plan=plan.name,
        seed=seed,
    )
    writer = RowsWriter(path, header)
    planned = planned_cases(plan, device.info, seed)
    say(f"{device.info.name}: plan {plan.name}, {len(planned)} cases, rows in {path}")
    outcome = measure_plan(device, planned, writer, deadline_s=deadline_s, clock=clock, say=say)
    held = read_rows(path)
    say(summary_table(held.rows.values(), held.failures.values()))
    say(_result_line(outcome))
    return outcome


def _result_line(outcome: Outcome) -> str:
    parts = [f"{outcome.num_measured} cases measured"]
    if outcome.num_there:
        parts.append(f"{outcome.num_there} were there")
    if outcome.num_failed:
        parts.append(f"{outcome.num_failed} failed")
    num_left = outcome.num_planned - outcome.num_there - outcome.num_measured - outcome.num_failed
    if num_left:
        parts.append(f"{num_left} left for another run with the same --out")
    return "; ".join(parts)
