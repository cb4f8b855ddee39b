"""Sweeps from a program."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.composing import CONFIG_MODULE, CONFIG_NAME
from experiments.hydra_errors import explain
from experiments.sweep.log import SweepLog
from experiments.sweep.pool import num_workers
from experiments.sweep.spelling import quoted
from sim.errors import ConfigError, FlocksimError

_LAUNCHERS = ("cores", "joblib")


def run_sweep(overrides: Sequence[str], directory: Path, workers: int | None = None) -> list[Path]:
    """Run every combination of values, as `flocksim -m` does.

    Jobs whose result is there are skipped. A job that cannot run does not stop the others: its
    result.json says why.

    Args:
        overrides: as on the command line, for example ``["routing=random,jsq", "seed=0,1"]``.
        directory: where to write, a directory per job and sweep.csv.
        workers: jobs at a time; None: one per core.

    Returns:
        Directories of the jobs, in the order of the sweep.

    Raises:
        ConfigError: the command line is wrong.
        OutputError: the directory cannot be written to.
        KeyboardInterrupt: Ctrl-C came; what is complete stays.
    """
    from hydra import initialize_config_module
    from hydra.core.global_hydra import GlobalHydra

    from experiments.sweep.launcher import register_launcher

    for item in overrides:
        if item.startswith("hydra/launcher=") and item.partition("=")[2] not in _LAUNCHERS:
            raise ConfigError(f"{item}: leave it out, a program runs sweeps in processes")
    given = [
        *overrides,
        f"hydra.sweep.dir={quoted(str(Path(directory).absolute()))}",
        f"hydra.launcher.n_jobs={num_workers(workers, 'workers')}",
    ]
    log = SweepLog(is_quiet=True)

    def job(_config: Any) -> None:
        raise ConfigError("hydra/launcher=...: leave it out, a program runs sweeps in processes")

    job.log = log  # type: ignore[attr-defined]
    register_launcher()
    try:
        with initialize_config_module(CONFIG_MODULE, version_base="1.3"):
            hydra = GlobalHydra.instance().hydra
            assert hydra is not None
            hydra.multirun(CONFIG_NAME, job, given, with_log_configuration=False)
    except FlocksimError:
        raise
    except Exception as error:
        line = explain(error, list(overrides))
        if line is None:
            raise
        raise ConfigError(line) from error
    finally:
        log.close()
    return [outcome.task.directory for outcome in log.outcomes]
