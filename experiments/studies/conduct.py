"""Runs a study: checks the overrides, runs, prints and writes what it found."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from experiments.results.atomic import make_writable
from experiments.results.directory_lock import locked
from experiments.studies.base import Bench, Study
from experiments.studies.files import CSV_NAME, MARKDOWN_NAME, write_findings
from experiments.studies.findings import Findings
from experiments.studies.registry import STUDIES, study_named
from experiments.studies.runs import Runner, key_of
from experiments.studies.terminal import print_findings
from experiments.summary import make_console
from experiments.sweep.pool import Pool, num_workers
from sim.errors import ConfigError

JOBS = "jobs"
"""Folder of the jobs' directories."""


def conduct(
    study: Study, size: str, directory: Path, workers: int | None, overrides: Sequence[str]
) -> Findings:
    """Run a study, print and write its findings.

    Args:
        study: the study.
        size: one of its sizes.
        directory: where to write.
        workers: jobs at a time; None: one per core.
        overrides: for every job.

    Raises:
        FlocksimError: an override is refused, a job cannot run, or a file cannot be written.
        KeyboardInterrupt: Ctrl-C came; jobs that are complete stay.
    """
    refuse_overrides(study, overrides)
    make_writable(directory, [CSV_NAME, MARKDOWN_NAME])
    with locked(directory), Pool(num_workers(workers, "--workers"), is_silent=True) as pool:
        print(f"{study.name}, size={size}: {study.question}", flush=True)
        runner = Runner(directory / JOBS, overrides, pool)
        findings = study.run(Bench(size=size, runner=runner, directory=directory))
        if overrides:
            line = f"every job with {shlex.join(overrides)}"
            findings = Findings(
                verdicts=findings.verdicts,
                sections=findings.sections,
                notes=(line, *findings.notes),
            )
        files = write_findings(study, size, findings, directory)
    print()
    print_findings(findings, make_console())
    print(f"results: {directory} ({', '.join(path.name for path in files)}, {JOBS}/)")
    return findings


def refuse_overrides(study: Study, overrides: Sequence[str]) -> None:
    """Refuse what is no override of a job, and keys that the study sets itself.

    Raises:
        ConfigError: names the override.
    """
    for item in overrides:
        if "=" not in item and not item.startswith("~"):
            raise ConfigError(f"{item}: must be KEY=VALUE")
        key = key_of(item)
        if key.startswith("hydra"):
            raise ConfigError(f"{item}: a study writes to --dir and runs --workers jobs at a time")
        for own in study.decides:
            if key == own or key.startswith((f"{own}.", f"{own}@")):
                raise ConfigError(
                    f"{item}: {study.name} sets this itself; it sets {', '.join(study.decides)}"
                )


def print_list() -> None:
    """Print name, question and sizes of every study."""
    for name in STUDIES:
        study = study_named(name)
        print(f"{name}\n  {study.question}")
        for size, text in study.sizes.items():
            print(f"  size={size}: {text}")
