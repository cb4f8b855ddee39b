"""From runs to the long table and the report."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from experiments.compare.decisions import decision_tables
from experiments.compare.notes import notes_of
from experiments.compare.report import Report, report_of
from experiments.results.load import Run, metrics_frame
from experiments.schema.suggest import unknown_name
from experiments.stats.blocks import blocks_of
from experiments.stats.comparison import comparison
from experiments.stats.per_request import class_frame
from sim.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd


def compare_runs(
    runs: Sequence[Run],
    copies: Sequence[Run] = (),
    *,
    baseline: str | None = None,
    metrics: Sequence[str] | None = None,
    by: str | None = None,
    policy_keys: Sequence[str] = (),
    unit_keys: Sequence[str] = (),
    level: float = 0.95,
    interval: str = "t",
) -> "tuple[pd.DataFrame, Report]":
    """Compare policies over runs.

    Args:
        runs: jobs, each once.
        copies: jobs left out, to be mentioned.
        baseline: policy to compare with; None takes the first.
        metrics: what the report shows: names, with or without unit, families, or "all".
        by: tenant or slo_class, to break down by it.
        policy_keys: keys that make different policies instead of different settings.
        unit_keys: keys whose values are repeats of one setting, as seeds are.
        level: coverage of the intervals.
        interval: method of the intervals of means.

    Returns:
        The table of all metrics (see `comparison`), and the report.

    Raises:
        ConfigError: no run finished, or a name is none.
        ResultError: a file of a run is damaged.
    """
    if not any(run.status == "ok" for run in runs):
        raise ConfigError(_why_none(runs))
    if by:
        frame = class_frame(runs, by, policy_keys, unit_keys)
    else:
        frame = metrics_frame(runs, policy_keys, unit_keys)
    asked = None if metrics is None else expanded(metrics, frame.attrs["metrics"])
    table = comparison(frame, baseline, level=level, method=interval)
    blocks = blocks_of(frame)
    notes = notes_of(runs, copies, frame, blocks, table, unit_keys)
    extras = decision_tables(runs, policy_keys, unit_keys)
    return table, report_of(blocks, table, asked, notes, extras)


def expanded(names: Sequence[str], known: Sequence[str]) -> list[str]:
    """Metrics meant by names with or without unit, families ("ttft") and "all".

    Raises:
        ConfigError: nothing is called so.
    """
    found: dict[str, None] = {}
    for name in names:
        exact = [metric for metric in known if name in (metric, _without_unit(metric), "all")]
        family = [metric for metric in known if metric.startswith(f"{name}_")]
        if not exact and not family:
            raise ConfigError(unknown_name("metric", name, known))
        found.update(dict.fromkeys(exact or family))
    return list(found)


def _without_unit(metric: str) -> str:
    for unit in ("_per_s", "_s", "_ratio", "_bytes"):
        if metric.endswith(unit):
            return metric.removesuffix(unit)
    return metric


def _why_none(runs: Sequence[Run]) -> str:
    first = runs[0]
    why = first.document.get("error") or "stopped before its end"
    return f"no job to compare ended well; the first, {first.directory}, is {first.status}: {why}"
