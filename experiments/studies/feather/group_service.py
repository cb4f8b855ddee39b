"""What every group of requests gets, while others may wait."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from experiments.studies.feather.measures import FloatArray, IntArray
from experiments.studies.measured import Measure

if TYPE_CHECKING:
    import pandas as pd

MAX_RANKED = 10
"""Groups at most whose service is kept one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupService:
    """Service by group, from the most to the least served one.

    Attributes:
        until_s: from the first arrival until the first group has nothing left to serve, seconds.
        num_served: requests that have finished by then. Shape (g,), falling.
        tokens_per_s: output tokens of these requests over that time. Shape (g,).
        longest_wait_s: longest time from arrival to first admission, of the whole run. Shape (g,).
    """

    until_s: float
    num_served: IntArray
    tokens_per_s: FloatArray
    longest_wait_s: FloatArray

    @property
    def values(self) -> dict[str, float]:
        """By the keys of `Measure`: the extremes, and every group where there are few."""
        extremes = {
            "first_done_s": self.until_s,
            "least_group_tokens_per_s": float(self.tokens_per_s.min()),
            "most_group_tokens_per_s": float(self.tokens_per_s.max()),
            "least_group_wait_s": float(self.longest_wait_s.min()),
        }
        if len(self.num_served) > MAX_RANKED:
            return extremes
        columns = (self.num_served, self.tokens_per_s, self.longest_wait_s)
        return extremes | {
            measure.key: float(column[rank])
            for rank in range(len(self.num_served))
            for measure, column in zip(measures_of(rank), columns, strict=True)
        }


def measures_of(rank: int) -> tuple[Measure, Measure, Measure]:
    """Requests, output and longest wait of the group in that place, 0 for the most served one."""
    return (
        Measure(f"group_{rank}_requests", "requests", "count"),
        Measure(f"group_{rank}_tokens_per_s", "output", "tokens/s"),
        Measure(f"group_{rank}_wait_s", "longest wait", "s"),
    )


def service_of(requests: "pd.DataFrame", groups: IntArray) -> GroupService:
    """Service until the first group is done; of groups served alike the earlier number is first.

    Later, groups that are done would count as badly served. Tokens of requests that are still
    running do not count.

    Args:
        requests: counted requests, all finished.
        groups: group of each of them. Shape (n,).
    """
    _, place, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    finish_s = requests["finish_s"].to_numpy()
    last_s = np.full(len(sizes), -np.inf)
    np.maximum.at(last_s, place, finish_s)
    is_served = finish_s <= last_s.min()
    until_s = float(last_s.min() - requests["arrival_s"].min())
    num_served = np.bincount(place, weights=is_served).astype(np.int64)
    tokens = np.bincount(place, weights=is_served * requests["output_tokens"].to_numpy())
    wait_s = np.zeros(len(sizes))
    np.maximum.at(wait_s, place, (requests["admitted_s"] - requests["arrival_s"]).to_numpy())
    order = np.argsort(-num_served, kind="stable")
    return GroupService(
        until_s=until_s,
        num_served=num_served[order],
        tokens_per_s=tokens[order] / until_s,
        longest_wait_s=wait_s[order],
    )
