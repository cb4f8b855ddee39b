"""The launcher of sweeps: composes every job once, skips what is done, runs the rest on all cores.

It takes the place of the plugin hydra-joblib-launcher, which shows no status, runs finished jobs
again and reports outcomes only when all jobs have ended.
"""

import importlib
import pickle
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from experiments.composing import chosen_options, resolved
from experiments.sweep.log import SweepLog
from experiments.sweep.overwriting import refuse_overwriting
from experiments.sweep.pool import Pool, num_workers
from experiments.sweep.reuse import refuse_shared_directories, reuse_results
from experiments.sweep.task import Task, outcome_of, run_task
from sim.errors import ConfigError


class JoblibLauncher(Launcher):
    """Launches the jobs of a sweep in processes of their own.

    Args:
        n_jobs: jobs at a time; None: one per core.
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        self._n_jobs = n_jobs
        self._workers = 1
        self._config: DictConfig | None = None
        self._composed: _ComposedOnce | None = None
        self._log = SweepLog()
        self._num_checked = 0

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Receive what Hydra knows; `task_function` may have a `log` to report to."""
        _refuse_unread(config)
        self._workers = num_workers(self._n_jobs)
        self._config = config
        self._log = getattr(task_function, "log", self._log)
        self._composed = _ComposedOnce(hydra_context.config_loader, self._log)
        context: Any = hydra_context
        context.config_loader = self._composed  # the sweeper composes all jobs as a check

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Run the jobs.

        Raises:
            ConfigError: two jobs have the same directory, or one holds the result of another sweep.
            KeyboardInterrupt: Ctrl-C came; what is complete stays.
        """
        assert self._config is not None
        assert self._composed is not None
        setup_globals()
        directory = Path(str(self._config.hydra.sweep.dir)).absolute()
        directory.mkdir(parents=True, exist_ok=True)
        is_checked = initial_job_idx < self._num_checked
        coming = job_overrides if is_checked else self._all_that_come(job_overrides)
        known = self._tasks(coming, initial_job_idx)
        tasks = known[: len(job_overrides)]
        if not is_checked:
            wrong = refuse_shared_directories(known) or refuse_overwriting(known)
            if wrong is not None:
                raise ConfigError(wrong)
        workers = min(self._workers, len(tasks))
        self._log.begin(directory, len(tasks), workers)
        with self._log.watch(len(tasks), workers), Pool(workers) as pool:
            done = reuse_results(known, directory)  # before a batch writes where a later one's lie
            self._num_checked = max(self._num_checked, initial_job_idx + len(known))
            for task in tasks:
                if task.number in done:
                    self._log.add(outcome_of(task, "skipped", "its result is there"))
                elif task.fault is not None:
                    self._log.add(run_task(task))  # not every exception can go to a process
                    done.add(task.number)
            pool.run([task for task in tasks if task.number not in done], self._log.add)
        return [_returned(task) for task in tasks]

    def _tasks(self, job_overrides: Sequence[Sequence[str]], first: int) -> list[Task]:
        assert self._config is not None
        assert self._composed is not None
        return [
            _task(self._composed.take(self._config, list(overrides)), number)
            for number, overrides in enumerate(job_overrides, start=first)
        ]

    def _all_that_come(self, batch: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
        """Jobs of a batch and of those after it; of sweepers that decide as they go, the batch."""
        from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
        from hydra.core.override_parser.overrides_parser import OverridesParser

        assert self._config is not None
        loader: Any = self._composed
        sweeper = self._config.hydra.sweeper
        if not sweeper.get("max_batch_size") or not str(sweeper._target_).endswith(_BASIC_SWEEPER):
            return batch
        params = [f"{key}={value}" for key, value in (sweeper.get("params") or {}).items()]
        given = [*params, *self._config.hydra.overrides.task]
        overrides = OverridesParser.create(config_loader=loader).parse_overrides(given)
        (every,) = BasicSweeper.split_arguments(overrides, None)
        return every


_BASIC_SWEEPER = ".BasicSweeper"
"""Hydra's own, which knows all jobs from the start."""

_PACKAGE = "hydra_plugins"
"""Hydra takes launchers from this package only; ours need not be installed to be in it."""

JoblibLauncher.__module__ = f"{_PACKAGE}.flocksim"


def register_launcher() -> None:
    """Make `hydra/launcher=cores` known to Hydra.

    It is also called `joblib`, unless the plugin of that name is installed.
    """
    plugins = Plugins.instance()
    try:
        package = importlib.import_module(_PACKAGE)
    except ImportError:
        package = sys.modules.setdefault(_PACKAGE, ModuleType(_PACKAGE))
        package.__path__ = []
    module = sys.modules.setdefault(JoblibLauncher.__module__, ModuleType("flocksim"))
    vars(module)[JoblibLauncher.__name__] = JoblibLauncher
    vars(package)["flocksim"] = module
    plugins.register(JoblibLauncher)
    store = ConfigStore.instance()
    if "joblib.yaml" not in store.repo["hydra"]["launcher"]:
        target = f"{JoblibLauncher.__module__}.{JoblibLauncher.__name__}"
        store.store("joblib", {"_target_": target, "n_jobs": None}, group="hydra/launcher")


class _ComposedOnce:
    """Hydra's loader of configurations, which keeps those of a sweep until they are launched.

    Composing takes longer than a small simulation, and Hydra does it once more to check for typos.
    """

    def __init__(self, loader: Any, log: SweepLog) -> None:
        self._loader = loader
        self._log = log
        self._kept: dict[tuple[str, ...], bytes] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def load_sweep_config(
        self, master_config: DictConfig, sweep_overrides: list[str]
    ) -> DictConfig:
        """Compose the configuration of a job, unless it was."""
        if tuple(sweep_overrides) in self._kept:
            return self.take(master_config, sweep_overrides)
        config: DictConfig = self._loader.load_sweep_config(master_config, sweep_overrides)
        self._kept[tuple(sweep_overrides)] = pickle.dumps(config)
        self._log.note_composed(len(self._kept))
        return config

    def take(self, master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        """The configuration of a job, composed now if it was not before."""
        kept = self._kept.get(tuple(sweep_overrides))
        if kept is None:
            config: DictConfig = self._loader.load_sweep_config(master_config, sweep_overrides)
            return config
        found: DictConfig = pickle.loads(kept)
        return found


def _task(config: DictConfig, number: int) -> Task:
    with open_dict(config):
        config.hydra.job.id = str(number)
        config.hydra.job.num = number
    HydraConfig.instance().set_config(config)
    hydra = config.hydra
    directory = Path(str(hydra.sweep.dir), str(hydra.sweep.subdir)).absolute()
    with read_write(hydra.runtime), open_dict(hydra.runtime):
        hydra.runtime.output_dir = str(directory)
    fault: Exception | None = None
    try:
        plain = resolved(config)
    except Exception as error:
        fault = error
        raw: Any = OmegaConf.to_container(config)
        plain = {key: value for key, value in raw.items() if key != "hydra"}
    return Task(
        number=number,
        config=plain,
        choices=chosen_options(hydra.runtime.choices),
        overrides=list(hydra.overrides.task),
        directory=directory,
        fault=fault,
    )


def _returned(task: Task) -> JobReturn:
    return JobReturn(
        overrides=task.overrides, working_dir=str(task.directory), status=JobStatus.COMPLETED
    )


def _refuse_unread(config: DictConfig) -> None:
    """Refuse keys of Hydra that only its own launchers follow."""
    hydra = config.hydra
    for key, value in (
        ("job.chdir", hydra.job.chdir),
        ("job.env_set", hydra.job.env_set),
        ("callbacks", hydra.get("callbacks")),
        ("output_subdir", hydra.output_subdir),
    ):
        if value:
            raise ConfigError(f"hydra.{key} needs another launcher: add hydra/launcher=basic")
