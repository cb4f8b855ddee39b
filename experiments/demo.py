"""`make demo`: the embedded conversations at three rates under four routers, compared.

A sweep of twelve jobs on all cores, one table and four figures. Started again, it runs only what is
missing.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.cli import EXIT_INTERRUPTED, EXIT_OK, complain
from experiments.hydra_errors import explain
from experiments.package_guard import foreign_package
from experiments.policy_errors import show_cause
from experiments.quantities import ABSENT, digits, duration
from experiments.streams import install_lenient_streams
from experiments.summary import make_console
from sim.errors import ConfigError, FlocksimError

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from experiments.results.load import Run

ROUTERS = ("round_robin", "power_of_two", "least_requests", "vllm_dp")
"""The first one is the baseline."""

RATES_PER_S = (8, 11, 14)

STUDY = (
    f"routing={','.join(ROUTERS)}",
    f"trace.rate_per_s={','.join(map(str, RATES_PER_S))}",
    "replications=4",
    "output.steps=true",
)

FIGURES = ("latency_vs_rate", "cdf", "goodput_vs_rate", "timeline")

DIRECTORY = Path("outputs/demo")

_COLUMNS = {
    "TTFT p99": ("ttft_p99_s", duration),
    "TPOT p99": ("tpot_p99_s", duration),
    "E2E mean": ("e2e_mean_s", duration),
    "goodput/s": ("goodput_per_s", digits),
    "imbalance": ("load_imbalance_ratio", digits),
}

JUDGED = "e2e_mean_s"
"""Metric of the last column: difference to the baseline."""

NOTE = (
    f"means over the draws; last column: E2E mean against {ROUTERS[0]} on the same draws "
    "(paired t, 95 %, Holm), ≈ not distinguishable"
)


def main(overrides: Sequence[str] | None = None, directory: Path = DIRECTORY) -> int:
    """Simulate, print and draw; returns the exit code.

    Args:
        overrides: further overrides for every run; None takes those of the process.
        directory: where jobs and figures go.
    """
    wrong = foreign_package()
    if wrong is not None:
        return complain(wrong)
    given = list(sys.argv[1:] if overrides is None else overrides)
    try:
        runs = _simulate(given, directory)
        make_console().print(comparison(runs))
        print(NOTE)
        _draw(runs, directory)
    except KeyboardInterrupt:
        print("flocksim: interrupted; make demo goes on where it stopped", file=sys.stderr)
        return EXIT_INTERRUPTED
    except Exception as error:
        line = str(error) if isinstance(error, FlocksimError) else explain(error, given)
        if line is None:
            raise
        show_cause(error)
        return complain(line)
    print(f"more: flocksim-compare {directory / 'jobs'} --baseline {ROUTERS[0]}; flocksim --help")
    return EXIT_OK


def _simulate(overrides: Sequence[str], directory: Path) -> "list[Run]":
    from experiments import api

    print(
        f"Llama-3-8B on 4 x A100: {len(ROUTERS)} routers at {len(RATES_PER_S)} rates, "
        "4 draws of the trace each",
        flush=True,
    )
    runs = api.sweep(*STUDY, *overrides, directory=directory / "jobs")
    for run in runs:
        if run.document["status"] != "ok":
            raise ConfigError(str(run.document.get("error") or run.document["status"]))
    return runs


def _draw(runs: "Sequence[Run]", directory: Path) -> None:
    from experiments import api
    from experiments.figures.save import write_picture
    from experiments.results.atomic import make_writable

    files = [f"{name}.png" for name in FIGURES]
    make_writable(directory, files)
    for name, file in zip(FIGURES, files, strict=True):
        write_picture(api.plot(runs, name), directory / file)
    print(f"figures: {', '.join(str(directory / file) for file in files)}")


def comparison(runs: "Sequence[Run]") -> "Table":
    """One block per rate, one row per router: means over the draws of the trace."""
    from rich.table import Table

    from experiments import api

    frame = api.compare(runs, baseline=ROUTERS[0])
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("rate/s", justify="right", no_wrap=True)
    table.add_column("routing", no_wrap=True)
    table.add_column("regime", no_wrap=True)
    for heading in _COLUMNS:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column(f"vs {ROUTERS[0]}", justify="right", no_wrap=True)
    for rate_per_s in RATES_PER_S:
        at_rate = frame[frame["trace.rate_per_s"].astype(float) == rate_per_s]
        for router in ROUTERS:
            is_first, is_last = router == ROUTERS[0], router == ROUTERS[-1]
            row = at_rate[at_rate["policy"] == router].set_index("metric")
            table.add_row(f"{rate_per_s}" if is_first else "", *_cells(row), end_section=is_last)
        table.add_row()
    return table


def _cells(row: "pd.DataFrame") -> list[str]:
    """Policy, regime, figures and verdict of one router at one rate."""
    first = row.iloc[0]
    figures = [shown(_number(row, metric)) for metric, shown in _COLUMNS.values()]
    return [str(first["policy"]), str(first["regime"]), *figures, _verdict(row.loc[JUDGED])]


def _number(row: "pd.DataFrame", metric: str) -> float | None:
    value = row["mean"].get(metric)
    return None if value is None or value != value else float(value)


def _verdict(judged: Any) -> str:
    if judged["policy"] == judged["baseline"]:
        return ABSENT
    change = judged["relative_difference"]
    shown = ABSENT if change != change else f"{100 * change:+.1f} %"
    verdict = str(judged["verdict"])
    return f"{shown} {verdict}" if verdict in ("better", "worse") else f"≈ {shown}"


if __name__ == "__main__":
    install_lenient_streams()
    sys.exit(main())
