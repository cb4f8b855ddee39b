"""`make demo`: the embedded conversations under three routers, in one table."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from experiments.cli import EXIT_INTERRUPTED, EXIT_OK, complain
from experiments.composing import compose_config
from experiments.hydra_errors import explain
from experiments.job import JobRun, simulate_job
from experiments.package_guard import foreign_package
from experiments.policy_errors import show_cause
from experiments.quantities import ABSENT, count, digits, duration, percent, rate
from experiments.streams import install_lenient_streams
from experiments.summary import deployment_lines, make_console
from sim.errors import FlocksimError

if TYPE_CHECKING:
    from rich.table import Table

ROUTERS = ("round_robin", "least_requests", "vllm_dp")


def main(overrides: Sequence[str] | None = None) -> int:
    """Simulate and print; returns the exit code.

    Args:
        overrides: further overrides for every run; None takes those of the process.
    """
    wrong = foreign_package()
    if wrong is not None:
        return complain(wrong)
    given = list(sys.argv[1:] if overrides is None else overrides)
    try:
        runs = [_simulate([f"routing={router}", *given]) for router in ROUTERS]
    except KeyboardInterrupt:
        print("flocksim: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except Exception as error:
        line = str(error) if isinstance(error, FlocksimError) else explain(error, given)
        if line is None:
            raise
        show_cause(error)
        return complain(line)
    for line in deployment_lines(runs[0].deployment, runs[0].job.cluster.tensor_parallel):
        print(line)
    make_console().print(comparison(runs))
    done = sum(int(run.metrics["num_finished"] or 0) for run in runs)
    wall_s = sum(run.wall_s["simulate"] for run in runs)
    print(f"{done:,} requests simulated in {duration(wall_s)}; more: flocksim --help")
    return EXIT_OK


def _simulate(overrides: list[str]) -> JobRun:
    run = simulate_job(*compose_config(overrides))
    if run.result.is_interrupted:
        raise KeyboardInterrupt
    return run


def comparison(runs: Sequence[JobRun]) -> "Table":
    """One column per run, one row per figure."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("routing")
    for run in runs:
        table.add_column(run.choices["routing"], justify="right")
    cells = [_figures(run) for run in runs]
    for name in cells[0]:
        table.add_row(name, *(column[name] for column in cells))
    return table


def _figures(run: JobRun) -> dict[str, str]:
    m = run.metrics
    return {
        "regime": str(run.document["regime"] or ABSENT),
        "finished": f"{count(m['num_finished'])} of {count(m['num_requests'])}",
        "TTFT p50": duration(m["ttft_p50_s"]),
        "TTFT p99": duration(m["ttft_p99_s"]),
        "TPOT p50": duration(m["tpot_p50_s"]),
        "TPOT p99": duration(m["tpot_p99_s"]),
        "ITL p99": duration(m["itl_p99_s"]),
        "E2E mean": duration(m["e2e_mean_s"]),
        "output": rate(m["output_tokens_per_s"], "tokens"),
        "goodput": rate(m["goodput_per_s"], "requests"),
        "prefix hits": percent(m["prefix_hit_ratio"]),
        "batch size": digits(m["mean_batch_size"]),
        "KV usage": percent(m["kv_usage_mean_ratio"]),
        "load imbalance": digits(m["load_imbalance_ratio"]),
        "preemptions": count(m["num_preemptions"]),
    }


if __name__ == "__main__":
    install_lenient_streams()
    sys.exit(main())
