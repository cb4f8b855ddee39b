"""Results that are there already, found by the key of their job.

They may lie in the directory of another job of the same sweep: one more value of a parameter
changes all numbers.
"""

import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.deployment import build_deployment
from experiments.job import ALL_FILES, DOCUMENTS
from experiments.results.atomic import make_writable, remove_files, write_text
from experiments.results.directory_lock import locked
from experiments.results.documents import shown_config
from experiments.results.job_key import job_key
from experiments.results.json_text import json_text
from experiments.schema.job import read_job
from experiments.sweep.task import Task

STAGING = ".reuse-"
"""Prefix of directories, inside that of the sweep, that hold results on their way to another."""


def key_of(config: Mapping[str, Any], choices: Mapping[str, str]) -> str | None:
    """Key that the result of this configuration will have.

    Returns:
        None if only running the job tells, or if it cannot run.
    """
    try:
        job = read_job(config)
        deployment = build_deployment(job)
        return job_key(job, deployment, shown_config(config, choices, deployment))
    except Exception:  # the job itself will say what is wrong
        return None


def reusable_key_of(config: Mapping[str, Any], choices: Mapping[str, str]) -> str | None:
    """The same, None also for a job that leaves more than its result behind.

    A policy names the options for such files in `written_files`.
    """
    key = key_of(config, choices)
    if key is None:
        return None
    for plugin in read_job(config).plugins:
        names = getattr(plugin.load_class(), "written_files", ())
        if any(plugin.options.get(name) is not None for name in names):
            return None
    return key


def stored_key(directory: Path) -> str | None:
    """Key of the complete result in a job's directory, None if there is none."""
    try:
        document = json.loads((directory / "result.json").read_text(encoding="utf-8"))
        is_complete = document["status"] == "ok"
        key = document["job_key"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(key) if is_complete and key else None


def stored_results(directory: Path) -> dict[str, Path]:
    """Directories of all complete results below one, by their keys; the first by name counts."""
    found: dict[str, Path] = {}
    for path in sorted(directory.rglob("result.json")):
        key = stored_key(path.parent)
        if key is not None:
            found.setdefault(key, path.parent)
    return found


def reuse_results(tasks: Sequence[Task], directory: Path) -> set[int]:
    """Put the results that tasks share with jobs below `directory` where they belong.

    Args:
        tasks: jobs to run.
        directory: that of the sweep.

    Returns:
        Numbers of the tasks that need not run.

    Raises:
        OutputError: a result cannot be copied.
    """
    stored = stored_results(directory)
    if not stored:
        return set()
    done: set[int] = set()
    moves: list[tuple[Task, Path]] = []
    for task in tasks:
        key = None if task.fault is not None else reusable_key_of(task.config, task.choices)
        if key is None or key not in stored:
            continue
        done.add(task.number)
        if stored_key(task.directory) != key:
            moves.append((task, stored[key]))
    if moves:
        _copy_all(moves, directory)
    _remove_staging(directory)
    return done


def _copy_all(moves: Sequence[tuple[Task, Path]], directory: Path) -> None:
    """Copy results, via a staging directory: a target may be the source of another copy."""
    staging = Path(tempfile.mkdtemp(prefix=STAGING, dir=directory))
    staged = [(task, staging / str(task.number)) for task, _ in moves]
    for (task, place), (_, source) in zip(staged, moves, strict=True):
        place.mkdir()
        for name in _last_document_last(source):
            shutil.copyfile(source / name, place / name)
        _rename_job(place / "run.json", task)
    for task, place in staged:
        make_writable(task.directory, ALL_FILES)
        with locked(task.directory):
            remove_files(task.directory, ALL_FILES)
            for name in _last_document_last(place):
                (place / name).replace(task.directory / name)


def _last_document_last(directory: Path) -> list[str]:
    """Files of a job; result.json, which proves the others, is the last."""
    order = [name for name in ALL_FILES if name not in DOCUMENTS] + list(reversed(DOCUMENTS))
    return [name for name in order if (directory / name).is_file()]


def _rename_job(path: Path, task: Task) -> None:
    """The same job may have been asked for in other words."""
    if path.is_file():
        document = json.loads(path.read_text(encoding="utf-8"))
        write_text(path, json_text({**document, "overrides": list(task.overrides)}))


def _remove_staging(directory: Path) -> None:
    for path in directory.glob(f"{STAGING}*"):
        shutil.rmtree(path, ignore_errors=True)


def refuse_shared_directories(tasks: Iterable[Task]) -> str | None:
    """What is wrong with the directories of tasks, one line; None if each has its own."""
    owners: dict[Path, Task] = {}
    for task in tasks:
        owner = owners.setdefault(task.directory.resolve(), task)
        if owner is not task:
            return (
                f"jobs #{owner.number} and #{task.number} would both write to {task.directory}: "
                "hydra.sweep.subdir must differ from job to job, for example ${hydra.job.num}"
            )
    return None
