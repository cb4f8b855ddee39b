"""A learner's table in a JSON file, so that a policy trained on one workload can serve another."""

import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from policies.batching.feather.history import COLUMNS
from policies.batching.feather.learner import (
    LOSS_BINS,
    NUM_ACTIONS,
    SHARING_BINS,
    TABLE_SHAPE,
    Learner,
    empty_table,
)
from sim.errors import ConfigError

FORMAT = "flocksim feather learner 1"

_LIMITS = (*TABLE_SHAPE, math.inf, math.inf)
"""Upper bounds of a row of the table: bins, action, count; and the value."""


@dataclass(frozen=True, slots=True)
class LearnerKind:
    """What a table was learned with; another one would give it another meaning.

    Attributes:
        learner: name of the learner.
        reward: name of the reward.
        chunk_tokens: tokens per chunk, the unit of the prefix loss.
    """

    learner: str
    reward: str
    chunk_tokens: int


@dataclass(frozen=True, slots=True)
class LearnerState:
    """Content of a file.

    Attributes:
        kind: what it was learned with.
        num_rewarded: rewarded decisions in all states.
        counts: the same by state and action, flat.
        values: what is expected of them, flat.
        points: samples of `History`.
    """

    kind: LearnerKind
    num_rewarded: int
    counts: list[int]
    values: list[float]
    points: list[tuple[float, int, int, float]]

    def give_to(self, learner: Learner) -> None:
        """Let a learner start with the table."""
        learner.num_rewarded = self.num_rewarded
        learner.counts = list(self.counts)
        learner.values = list(self.values)

    def to_text(self) -> str:
        """The file; equal states give equal bytes."""
        document = {
            "format": FORMAT,
            "learner": self.kind.learner,
            "reward": self.kind.reward,
            "chunk_tokens": self.kind.chunk_tokens,
            "num_rewarded": self.num_rewarded,
            "table": list(self._rows()),
            "history": {name: [p[k] for p in self.points] for k, name in enumerate(COLUMNS)},
        }
        return json.dumps(document, allow_nan=False) + "\n"

    def _rows(self) -> Iterator[list[float]]:
        """(size bin, loss bin, sharing bin, action, count, value) of every pair that was tried."""
        for at, count in enumerate(self.counts):
            if count:
                state, action = divmod(at, NUM_ACTIONS)
                rest, sharing_bin = divmod(state, SHARING_BINS)
                size_bin, loss_bin = divmod(rest, LOSS_BINS)
                yield [size_bin, loss_bin, sharing_bin, action, count, self.values[at]]


def write_learner_state(state: LearnerState, path: Path) -> None:
    """Write a file as a whole or not at all.

    Raises:
        ConfigError: it cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(state.to_text())
        temporary.replace(path)
    except OSError as error:
        raise ConfigError(f"batching.state_out={path}: cannot write: {error.strerror}") from error


def read_learner_state(path: Path, where: str) -> LearnerState:
    """Read a file.

    Args:
        path: the file.
        where: option that names it, for messages.

    Raises:
        ConfigError: it cannot be read, or it is not such a file.
    """
    try:
        document = json.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"{where}={path}: cannot read: {error.strerror}") from error
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{where}={path}: is not JSON") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ConfigError(f"{where}={path}: format must be {FORMAT!r}")
    try:
        return _state_of(document)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        why = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise ConfigError(f"{where}={path}: {why}") from error


def _state_of(document: dict[str, Any]) -> LearnerState:
    kind = LearnerKind(
        str(document["learner"]), str(document["reward"]), _whole("chunk_tokens", document)
    )
    counts, values = empty_table()
    for row in document["table"]:
        if len(row) != len(_LIMITS) or not all(map(_is_finite, row)):
            raise ValueError(f"table has the row {row}, not 6 finite numbers")
        *bins, count, value = row
        names = (*bins, count)
        if not all(isinstance(n, int) and 0 <= n < m for n, m in zip(names, _LIMITS, strict=False)):
            raise ValueError(f"table has the row {row}, out of range")
        size_bin, loss_bin, sharing_bin, action = bins
        state = (size_bin * LOSS_BINS + loss_bin) * SHARING_BINS + sharing_bin
        counts[state * NUM_ACTIONS + action] = count
        values[state * NUM_ACTIONS + action] = float(value)
    history = document["history"]
    columns = [history[name] for name in COLUMNS]
    if not all(map(_is_finite, [value for column in columns for value in column])):
        raise ValueError("history must hold finite numbers")
    return LearnerState(
        kind=kind,
        num_rewarded=_whole("num_rewarded", document),
        counts=counts,
        values=values,
        points=[tuple(point) for point in zip(*columns, strict=True)],
    )


def _whole(name: str, document: dict[str, Any]) -> int:
    value = document[name]
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{name}={value!r} must be an integer >= 0")
    return value


def _is_finite(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)  # type: ignore[arg-type]
