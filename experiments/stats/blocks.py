"""Observations arranged for a comparison: per setting, the runs of each policy."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from experiments.results.labels import shown_value

if TYPE_CHECKING:
    import pandas as pd

FloatArray = npt.NDArray[np.float64]

WORST_REGIMES = ("overloaded", "backlogged", "closed_loop", "stable")
"""From the worst to the best."""


@dataclass(frozen=True)
class Sample:
    """The runs of one policy in one setting, a place per run and replication in every list.

    Attributes:
        loads: digests of the traces they saw.
        seeds: their seeds.
        replications: their numbers within a job.
        regimes: None where a run has none.
        users: how many send the requests in a closed loop, else NaN.
        offered_rates_per_s: NaN where it is not known, and in a closed loop.
        metrics: values by metric, NaN where absent.
    """

    loads: list[str]
    seeds: list[Any]
    replications: list[int]
    regimes: list[str | None]
    users: FloatArray
    offered_rates_per_s: FloatArray
    metrics: Mapping[str, FloatArray]

    @cached_property
    def is_repeated(self) -> bool:
        """Whether several runs all have the very same figures: they are one observation."""
        columns = self.metrics.values()
        return len(self.seeds) > 1 and all(
            np.array_equal(values, np.full_like(values, values[0]), equal_nan=True)
            for values in columns
        )

    @property
    def num_values(self) -> int:
        """Independent observations."""
        return 1 if self.is_repeated else len(self.seeds)

    @property
    def regime(self) -> str | None:
        """The worst regime among the runs, None if none has one."""
        return next((regime for regime in WORST_REGIMES if regime in self.regimes), None)

    @property
    def num_in_regime(self) -> int:
        """Runs in the worst regime."""
        return self.regimes.count(self.regime)

    def values(self, metric: str) -> FloatArray:
        """Independent observations of a metric."""
        values = self.metrics[metric]
        return values[:1] if self.is_repeated else values

    def pair_keys(self) -> list[tuple[str, Any, int]]:
        """What runs on the same requests have in common: trace, seed, replication."""
        return list(zip(self.loads, self.seeds, self.replications, strict=True))


@dataclass(frozen=True)
class Block:
    """One setting.

    Attributes:
        settings: what it is called: column and value.
        samples: runs by policy, in the order of the whole frame.
        placebos: per policy that has any, a sample per further order of ties.
    """

    settings: dict[str, Any]
    samples: dict[str, Sample]
    placebos: dict[str, list[Sample]] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Settings in one line; empty where nothing but the policy varies."""
        return ", ".join(f"{key}={shown_value(value)}" for key, value in self.settings.items())


def blocks_of(frame: "pd.DataFrame") -> list[Block]:
    """Blocks of a metrics frame: numbers ascending, names in order of appearance.

    Only runs with status ok count: half a run averages another load.
    """
    attributes: dict[str, Any] = {str(name): value for name, value in frame.attrs.items()}
    settings: list[str] = attributes["settings"]
    rows = frame[frame["status"] == "ok"]
    columns: dict[str, list[Any]] = {str(key): rows[key].tolist() for key in rows.columns}
    # Absent values are NaN in a column, and NaN is unlike itself.
    keys = [
        tuple(
            None if columns[key][row] != columns[key][row] else columns[key][row]
            for key in settings
        )
        for row in range(len(rows))
    ]
    places: dict[tuple[Any, ...], dict[str, dict[int, list[int]]]] = {}
    for row, key in enumerate(keys):
        of_policy = places.setdefault(key, {}).setdefault(columns["policy"][row], {})
        of_policy.setdefault(columns["tie_shift"][row], []).append(row)
    policies = list(dict.fromkeys(columns["policy"]))
    return [
        Block(
            dict(zip(settings, key, strict=True)),
            {
                policy: _sample(columns, shifts[min(shifts)], attributes)
                for policy in policies
                if (shifts := places[key].get(policy))
            },
            {
                policy: [_sample(columns, shifts[shift], attributes) for shift in more]
                for policy, shifts in places[key].items()
                if (more := sorted(shifts)[1:])
            },
        )
        for key in sorted(places, key=_order(list(places)))
    ]


def _sample(
    columns: Mapping[str, list[Any]], rows: Sequence[int], attributes: Mapping[str, Any]
) -> Sample:
    def of(name: str) -> list[Any]:
        return [columns[name][row] for row in rows]

    return Sample(
        loads=of("load"),
        seeds=of("seed"),
        replications=of("replication"),
        regimes=[regime if isinstance(regime, str) else None for regime in of("regime")],
        users=np.array(of("users"), dtype=float),
        offered_rates_per_s=np.array(of("offered_rate_per_s"), dtype=float),
        metrics={name: np.array(of(name), dtype=float) for name in attributes["metrics"]},
    )


def _order(
    keys: Sequence[tuple[Any, ...]],
) -> Callable[[tuple[Any, ...]], list[tuple[int, float]]]:
    """Sort key: per column, numbers by value, others after them by first appearance."""
    names = [list(dict.fromkeys(map(str, column))) for column in zip(*keys, strict=True)]

    def order(key: tuple[Any, ...]) -> list[tuple[int, float]]:
        return [
            (0, float(value))
            if isinstance(value, int | float) and not isinstance(value, bool)
            else (1, known.index(str(value)))
            for value, known in zip(key, names, strict=True)
        ]

    return order
