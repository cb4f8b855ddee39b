"""`flocksim experiment=NAME`: a study where Hydra would run a job."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from experiments.composing import EXPERIMENT
from experiments.schema.section import refuse_unknown
from experiments.studies.arguments import size_named
from experiments.studies.conduct import conduct
from experiments.studies.registry import study_named
from experiments.studies.runs import key_of
from sim.errors import ConfigError

_KEYS = ("study", "size")


def run_experiment(section: Mapping[str, Any], overrides: Sequence[str], directory: Path) -> None:
    """Run the study that a command line chose; its other overrides are for every job.

    Args:
        section: the composed section `experiment`.
        overrides: the command line.
        directory: where to write.

    Raises:
        FlocksimError: the section is wrong, or the study cannot run.
        KeyboardInterrupt: Ctrl-C came; jobs that are complete stay.
    """
    refuse_unknown(EXPERIMENT, section, _KEYS)
    for key in _KEYS:
        if key not in section:
            raise ConfigError(f"{EXPERIMENT}.{key} is missing")
    study = study_named(str(section["study"]))
    size = size_named(section["size"], f"{EXPERIMENT}.size")
    of_jobs = [item for item in overrides if key_of(item).partition(".")[0] != EXPERIMENT]
    with _hydra_set_aside():
        conduct(study, size, directory, None, of_jobs)


@contextmanager
def _hydra_set_aside() -> Iterator[None]:
    """Hydra composes nothing else while it runs an application; the jobs must be composed."""
    from hydra.core.global_hydra import GlobalHydra

    state = GlobalHydra.instance()
    kept = state.hydra
    assert kept is not None
    state.clear()
    try:
        yield
    finally:
        state.clear()
        state.initialize(kept)
