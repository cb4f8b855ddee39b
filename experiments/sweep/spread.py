"""How far replications differ: means with intervals, for the summary of a job."""

from typing import TYPE_CHECKING

from experiments.job import JobRun
from experiments.quantities import digits, duration, percent, rate
from experiments.sweep.intervals import half_width

if TYPE_CHECKING:
    from rich.console import Console

_ROWS = (
    ("TTFT mean", "ttft_mean_s", duration),
    ("TTFT p99", "ttft_p99_s", duration),
    ("TPOT mean", "tpot_mean_s", duration),
    ("TPOT p99", "tpot_p99_s", duration),
    ("ITL p99", "itl_p99_s", duration),
    ("E2E mean", "e2e_mean_s", duration),
    ("requests", "request_rate_per_s", lambda value: rate(value, "requests")),
    ("output", "output_tokens_per_s", lambda value: rate(value, "tokens")),
    ("goodput", "goodput_per_s", lambda value: rate(value, "requests")),
    ("SLO met", "slo_attainment_ratio", percent),
    ("prefix hits", "prefix_hit_ratio", percent),
    ("load imbalance", "load_imbalance_ratio", digits),
)


def print_spread(run: JobRun, console: "Console") -> None:
    """Print mean and 95 % interval of the main figures; nothing for a single run."""
    n = len(run.replications)
    if n == 1:
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column(f"{n} replications")
    table.add_column("mean", justify="right")
    table.add_column("95 % t interval", justify="right")
    for label, name, show in _ROWS:
        values = [one.metrics[name] for one in run.replications]
        known = [float(value) for value in values if value is not None]
        half = half_width(known) if len(known) == n else None
        table.add_row(label, show(run.metrics[name]), "-" if half is None else f"± {show(half)}")
    console.print(table)
    regimes = [one.regime or "none" for one in run.replications]
    counts = [f"{regimes.count(name)} {name}" for name in dict.fromkeys(sorted(regimes))]
    print(f"regimes: {', '.join(counts)}")
