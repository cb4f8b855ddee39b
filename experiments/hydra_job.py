"""A job as Hydra runs it: alone, or as one of a sweep of Hydra's own launchers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.cli import EXIT_INTERRUPTED, EXIT_OK, complain
from experiments.composing import EXPERIMENT, chosen_options, resolved
from experiments.job import JobRun, run_job
from experiments.summary import deployment_lines, make_console, print_summary
from experiments.sweep.log import SweepLog
from experiments.sweep.overwriting import refuse_overwriting
from experiments.sweep.reuse import reusable_key_of, stored_key
from experiments.sweep.spread import print_spread
from experiments.sweep.task import Task, outcome_of, run_task


def run_hydra_job(config: Any, log: SweepLog) -> int:
    """Run the job that Hydra composed and return its exit code.

    Args:
        config: the configuration.
        log: told of a job that is part of a sweep.

    Raises:
        KeyboardInterrupt: the user stopped a sweep; what is complete is written.
    """
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    hydra = HydraConfig.get()
    directory = Path(hydra.runtime.output_dir)
    choices = chosen_options(hydra.runtime.choices)
    overrides = list(hydra.overrides.task)
    if EXPERIMENT in config and hydra.mode == RunMode.RUN:
        from experiments.studies.of_hydra import run_experiment

        run_experiment(resolved(config)[EXPERIMENT], overrides, directory)
        return EXIT_OK
    if hydra.mode == RunMode.MULTIRUN:
        log.directory = Path(str(hydra.sweep.dir)).absolute()
        return _run_in_sweep(config, choices, overrides, directory, int(hydra.job.num), log)
    run = _run_alone(config, choices, overrides, directory)
    return EXIT_INTERRUPTED if run.is_interrupted else EXIT_OK


def _run_alone(
    config: Any, choices: dict[str, str], overrides: list[str], directory: Path
) -> JobRun:
    plain = resolved(config)

    def announce(deployment: Any) -> None:
        for line in deployment_lines(deployment, plain["cluster"]["tensor_parallel"]):
            print(line, flush=True)

    run = run_job(plain, choices, overrides, directory, announce)
    console = make_console()
    print_summary(run, console)
    print_spread(run, console)
    print(f"results: {directory}")
    return run


def _run_in_sweep(
    config: Any,
    choices: Mapping[str, str],
    overrides: Sequence[str],
    directory: Path,
    number: int,
    log: SweepLog,
) -> int:
    from omegaconf import OmegaConf

    plain: Any = OmegaConf.to_container(config)
    fault: Exception | None = None
    try:
        plain = resolved(config)
    except Exception as error:
        fault = error
    task = Task(
        number=number,
        config=plain,
        choices=choices,
        overrides=overrides,
        directory=directory,
        fault=fault,
    )
    key = stored_key(directory)
    if fault is None and key is not None and key == reusable_key_of(plain, choices):
        outcome = outcome_of(task, "skipped", "its result is there")
    elif (lost := refuse_overwriting([task])) is not None:
        outcome = outcome_of(task, "busy", lost)
    else:
        outcome = run_task(task)
    log.add(outcome)
    if outcome.is_bad and not _ends_here():
        complain(f"{outcome.task.name}: {outcome.line}")
    if outcome.status == "interrupted":
        raise KeyboardInterrupt
    return outcome.exit_code


def _ends_here() -> bool:
    """Whether this process sees the end of the sweep; others report their failures at once."""
    from hydra.core.hydra_config import HydraConfig

    return str(HydraConfig.get().launcher._target_).endswith(".BasicLauncher")
