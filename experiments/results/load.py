"""Results of jobs, read back: one object per job directory, one table of metrics for all."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.results.document_check import COLUMNS, fault_of
from experiments.results.metrics_frame import metrics_frame
from sim.errors import FlocksimError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ResultError", "Run", "load_run", "load_runs", "metrics_frame", "without_copies"]

RESULT, RUN = "result.json", "run.json"


class ResultError(FlocksimError):
    """Files of a job are missing, damaged, or of another version."""


@dataclass(frozen=True, repr=False)
class Run:
    """One job directory.

    Attributes:
        directory: where its files lie.
        document: content of result.json.
        choices: chosen option of each config group.
        overrides: what was given on its command line; empty where no run.json lies beside.
    """

    directory: Path
    document: dict[str, Any]
    choices: dict[str, str]
    overrides: list[str]

    def __repr__(self) -> str:
        """Directory, status and policies: a document is too long for a notebook."""
        policies = (self.choices.get(group) for group in ("routing", "batching"))
        policy = " + ".join(filter(None, policies))
        return f"Run({str(self.directory)!r}, status={self.status!r}, policy={policy!r})"

    @property
    def status(self) -> str:
        """ok, infeasible, interrupted or failed."""
        return str(self.document["status"])

    @property
    def config(self) -> dict[str, Any]:
        """The resolved configuration, without paths."""
        config: dict[str, Any] = self.document["config"]
        return config

    @property
    def metrics(self) -> Mapping[str, float | int | None]:
        """The metrics; empty for a job that could not run."""
        return self.document.get("metrics") or {}

    @property
    def slo(self) -> tuple[float, float]:
        """What a good request must not exceed: TTFT and TPOT, seconds.

        Raises:
            ResultError: result.json does not say.
        """
        try:
            slo = self.config["slo"]
            return float(slo["ttft_s"]), float(slo["tpot_s"])
        except (KeyError, TypeError, ValueError):
            path = self.directory / RESULT
            raise ResultError(f"{path}: config.slo must hold ttft_s and tpot_s") from None

    @cached_property
    def requests(self) -> "pd.DataFrame | None":
        """requests.parquet: one row per request (and replication); None if it is not there."""
        return self.read_table("requests.parquet")

    @cached_property
    def steps(self) -> "pd.DataFrame":
        """steps.parquet: one row per run of equal steps.

        Raises:
            ResultError: it is not there: the job was run without output.steps=true, or not at all.
        """
        table = self.read_table("steps.parquet")
        if table is None:
            raise ResultError(
                f"{self.directory}: has no steps.parquet: it is written with output.steps=true"
            )
        return table

    @cached_property
    def decisions(self) -> "pd.DataFrame":
        """decisions.parquet: one row per request that was routed.

        Raises:
            ResultError: it is not there: the job was run without output.decisions=true, or not at
                all.
        """
        table = self.read_table("decisions.parquet")
        if table is None:
            raise ResultError(
                f"{self.directory}: has no decisions.parquet: it is written with "
                "output.decisions=true"
            )
        return table

    @cached_property
    def distributions(self) -> "pd.DataFrame | None":
        """distributions.parquet: `quantile` (0 to 1) and `itl_s`; None if it is not there."""
        return self.read_table("distributions.parquet")

    def read_table(self, name: str, columns: Sequence[str] | None = None) -> "pd.DataFrame | None":
        """A parquet file of the job; None if it is not there.

        Args:
            name: its name in the directory.
            columns: the columns to read, those that the file lacks are left out; None reads all.

        Raises:
            ResultError: it cannot be read.
        """
        path = self.directory / name
        if not path.is_file():
            return None
        from pyarrow import ArrowException, parquet

        try:
            there = parquet.read_schema(path).names
            missing = [column for column in COLUMNS.get(name, ()) if column not in there]
            if missing:
                raise ResultError(f"{path}: has no column {missing[0]}")
            if columns is not None:
                columns = [column for column in columns if column in there]
            table: pd.DataFrame = parquet.read_table(path, columns=columns).to_pandas()
        except (ArrowException, OSError) as error:
            raise ResultError(f"{path}: cannot be read: {_one_line(error)}") from error
        return table


def load_runs(paths: "Iterable[str | Path] | str | Path") -> list[Run]:
    """All jobs under the given directories, in the order of the paths, then of their names.

    Jobs that failed, were infeasible or interrupted are kept, with their status.

    Args:
        paths: job directories, or directories that hold them at any depth.

    Raises:
        ResultError: a path does not exist or holds no job, or a file of a job is damaged.
    """
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    if not given:
        raise ResultError("no directory given")
    directories: dict[Path, Path] = {}
    for path in map(Path, given):
        for directory in _job_directories(path):
            directories.setdefault(directory.resolve(), directory)
    return [load_run(directory) for directory in directories.values()]


def load_run(directory: Path) -> Run:
    """The job of one directory.

    Raises:
        ResultError: there is none, or its files are damaged.
    """
    document = _read_json(directory / RESULT)
    wrong = fault_of(document)
    if wrong is not None:
        raise ResultError(f"{directory / RESULT}: {wrong}")
    run_path = directory / RUN
    overrides = _read_json(run_path).get("overrides", []) if run_path.is_file() else []
    if not isinstance(overrides, list):
        raise ResultError(f"{run_path}: overrides is {overrides!r:.60}, must be a list")
    choices = {str(key): str(value) for key, value in document["config"]["choices"].items()}
    return Run(directory, document, choices, [str(item) for item in overrides])


def without_copies(runs: Sequence[Run]) -> tuple[list[Run], list[Run]]:
    """Runs of different jobs, and those that repeat one of them (equal `job_key`).

    A copy holds the same figures: counted twice, it would feign a second observation.
    """
    kept: list[Run] = []
    copies: list[Run] = []
    seen: set[str] = set()
    for run in runs:
        key = run.document.get("job_key") if run.status == "ok" else None
        (copies if key in seen else kept).append(run)
        if key is not None:
            seen.add(key)
    return kept, copies


def _job_directories(path: Path) -> list[Path]:
    if not path.exists():
        raise ResultError(f"{path}: no such directory")
    if path.name == RESULT and path.is_file():
        return [path.parent]
    if not path.is_dir():
        raise ResultError(f"{path}: must be a directory that holds {RESULT}")
    found = [file.parent for file in path.rglob(RESULT) if file.is_file()]
    if not found:
        raise ResultError(f"{path}: holds no {RESULT}, nor does a directory in it")
    return sorted(found, key=lambda directory: _natural(directory.relative_to(path)))


def _natural(path: Path) -> list[tuple[int, int, str]]:
    """Sort key in which 2 comes before 10."""
    parts = re.split(r"(\d+)", path.as_posix())
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ResultError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise ResultError(f"{path}: is no JSON: {_one_line(error)}") from error
    if not isinstance(content, dict):
        raise ResultError(f"{path}: must hold an object, found {type(content).__name__}")
    return content


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
