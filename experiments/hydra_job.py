"""A job as Hydra runs it: alone, or as one of a sweep that goes on when it fails."""

import sys
import traceback
from pathlib import Path
from typing import Any

from experiments.cli import EXIT_DEFECT, EXIT_INTERRUPTED, EXIT_MISTAKE, EXIT_OK, complain
from experiments.composing import chosen_options, resolved
from experiments.hydra_errors import explain
from experiments.job import ALL_FILES, JobRun, run_job
from experiments.policy_errors import show_cause
from experiments.quantities import duration, percent, rate
from experiments.results.atomic import make_writable, remove_files, write_text
from experiments.results.directory_lock import DirectoryBusyError, locked
from experiments.results.documents import failure_document, shown_config
from experiments.results.json_text import json_text
from experiments.summary import deployment_lines, make_console, print_summary
from sim.errors import FlocksimError


def run_hydra_job(config: Any) -> int:
    """Run the job that Hydra composed and return its exit code.

    Raises:
        KeyboardInterrupt: the user stopped a sweep; what is complete is written.
    """
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    hydra = HydraConfig.get()
    directory = Path(hydra.runtime.output_dir)
    choices = chosen_options(hydra.runtime.choices)
    overrides = list(hydra.overrides.task)
    if hydra.mode == RunMode.MULTIRUN:
        return _run_in_sweep(config, choices, overrides, directory, hydra.job.num)
    run = _run_alone(config, choices, overrides, directory)
    return EXIT_INTERRUPTED if run.result.is_interrupted else EXIT_OK


def _run_alone(
    config: Any, choices: dict[str, str], overrides: list[str], directory: Path
) -> JobRun:
    plain = resolved(config)

    def announce(deployment: Any) -> None:
        for line in deployment_lines(deployment, plain["cluster"]["tensor_parallel"]):
            print(line, flush=True)

    run = run_job(plain, choices, overrides, directory, announce)
    print_summary(run, make_console())
    print(f"results: {directory}")
    return run


def _run_in_sweep(
    config: Any, choices: dict[str, str], overrides: list[str], directory: Path, number: int
) -> int:
    """A job of a sweep: one line; a failure is written down and does not stop the others."""
    from omegaconf import OmegaConf

    name = f"#{number} {' '.join(overrides)}"
    plain: Any = OmegaConf.to_container(config)
    try:
        plain = resolved(config)
        run = run_job(plain, choices, overrides, directory)
    except DirectoryBusyError as error:
        return complain(f"{name}: {error}")
    except Exception as error:
        line = str(error) if isinstance(error, FlocksimError) else explain(error, overrides)
        status = "failed" if line is None else "infeasible"
        if line is None:
            traceback.print_exc()
            line = f"{type(error).__name__}: {' '.join(str(error).split())}"
        show_cause(error)
        shown = shown_config(plain, choices, None)
        make_writable(directory)
        with locked(directory):
            remove_files(directory, ALL_FILES)
            write_text(directory / "result.json", json_text(failure_document(status, line, shown)))
        complain(f"{name}: {line}")
        return EXIT_MISTAKE if status == "infeasible" else EXIT_DEFECT
    print(f"{name}: {sweep_line(run)}")
    sys.stdout.flush()
    if run.result.is_interrupted:
        raise KeyboardInterrupt
    return EXIT_OK


def sweep_line(run: JobRun) -> str:
    """The figures of a run in one line."""
    m = run.metrics
    return (
        f"{run.document['regime'] or _why_no_regime(run)}, "
        f"{rate(m['request_rate_per_s'], 'requests')}, TTFT p50 {duration(m['ttft_p50_s'])} "
        f"p99 {duration(m['ttft_p99_s'])}, TPOT p50 {duration(m['tpot_p50_s'])}, "
        f"prefix hits {percent(m['prefix_hit_ratio'])}, "
        f"{run.deployment.spec.num_gpu_blocks:,} KV blocks, "
        f"simulated in {duration(run.wall_s['simulate'])}"
    )


def _why_no_regime(run: JobRun) -> str:
    return "interrupted" if run.result.is_interrupted else "no request finished"
