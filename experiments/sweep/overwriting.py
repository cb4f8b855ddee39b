"""Results of another sweep, which a sweep must not write over."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.sweep.reuse import key_of, stored_key
from experiments.sweep.task import Task


def refuse_overwriting(tasks: Sequence[Task]) -> str | None:
    """What would be lost if these tasks wrote to their directories, one line; None if nothing.

    A finished result may go where one of the tasks has its key, which finds and keeps it, or where
    the task of its directory has its overrides, which is the same job with other sources or
    another trace file.

    Args:
        tasks: all jobs of the sweep.
    """
    others = [(task, key) for task in tasks if (key := _key_of_another(task)) is not None]
    if not others:
        return None
    ours = {key_of(task.config, task.choices) for task in tasks if task.fault is None}
    for task, key in others:
        if key not in ours:
            return (
                f"{task.directory} holds a result of another sweep ({_told(task.directory)}), "
                f"which {task.name} would overwrite: give another hydra.sweep.dir"
            )
    return None


def _key_of_another(task: Task) -> str | None:
    """Key of the finished result in a task's directory, None if there is none or it is a rerun."""
    key = stored_key(task.directory)
    if key is None:
        return None
    given = _stored_overrides(task.directory)
    return key if given is None or _values(given) != _values(task.overrides) else None


def _stored_overrides(directory: Path) -> list[str] | None:
    """Command line of the result in a directory, None if nothing says it."""
    try:
        document = json.loads((directory / "run.json").read_text(encoding="utf-8"))
        return [str(item) for item in document["overrides"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _values(overrides: Sequence[str]) -> Mapping[str, str]:
    """Values by key: the order on a command line means nothing, of equal keys the last counts."""
    return {key: value for key, _, value in (item.partition("=") for item in overrides)}


def _told(directory: Path) -> str:
    given = _stored_overrides(directory)
    if given is None:
        return "without run.json"
    return " ".join(given) or "no overrides"
