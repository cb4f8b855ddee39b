"""Capacity of several policies, searched side by side so that all cores have work."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from experiments.capacity.criterion import Criterion
from experiments.capacity.points import Answer, Bench, Point, Policy, offered_rate_per_s
from experiments.capacity.search import Search

KEY = "trace.rate_scale"

NUM_EQUAL = 3
"""Halvings of the rate without effect after which a lower one is taken to have none either."""

Tell = Callable[[str], object]


@dataclass(slots=True)
class RateSearch:
    """The search for the capacity of one policy, with all that it looked at.

    Attributes:
        policy: the policy.
        search: low and high end of the interval, factors of `trace.rate_scale`.
        points: one entry per factor, in the order in which they were looked at.
        fault: why its jobs cannot run, empty if they can.
    """

    policy: Policy
    search: Search
    points: list[dict[str, Any]] = field(default_factory=list)
    fault: str = ""

    @property
    def next_factor(self) -> float | None:
        """The factor to look at, None when there is nothing more to learn."""
        return None if self.fault else self.search.next_factor

    def point_at(self, factor: float | None) -> dict[str, Any] | None:
        """What was found at a factor."""
        return next((one for one in self.points if one["rate_scale"] == factor), None)


def search_rates(
    bench: Bench,
    policies: Sequence[Policy],
    criterion: Criterion,
    start: float,
    tolerance: float,
    tell: Tell,
) -> list[RateSearch]:
    """Search for the highest factor of the rate that each policy sustains.

    Args:
        bench: runs the jobs.
        policies: to be compared.
        criterion: what must hold.
        start: the first factor.
        tolerance: relative width of the interval to end with.
        tell: told what goes on, a line at a time.

    Raises:
        KeyboardInterrupt: Ctrl-C came; what is complete stays.
    """
    searches = [RateSearch(policy, Search(start, tolerance)) for policy in policies]
    number = 0
    while active := [one for one in searches if one.next_factor is not None]:
        number += 1
        tell(f"round {number}: {len(active)} of {len(policies)} policies, {bench.num_jobs} runs")
        points = [Point(one.policy, KEY, one.next_factor or 0.0) for one in active]
        answers = bench.ask(points)
        for one, answer in zip(active, answers, strict=True):
            _learn(one, answer, criterion)
    return searches


def _learn(one: RateSearch, answer: Answer, criterion: Criterion) -> None:
    if answer.fault:
        one.fault = answer.fault
        return
    verdict = criterion.judge(answer.documents)
    rates = [offered_rate_per_s(directory) for directory in answer.directories]
    known = [rate for rate in rates if rate is not None]
    one.points.append(
        {
            "rate_scale": one.next_factor,
            "offered_rate_per_s": float(sum(known)) / len(known) if known else None,
            "is_sustained": verdict.does_hold,
            "why_not": verdict.why or None,
            "slo_attainment_ratio": verdict.attainment,
            "regimes": [document["regime"] for document in answer.documents],
            "job_keys": [document["job_key"] for document in answer.documents],
        }
    )
    if not known and verdict.does_hold:
        one.fault = "all requests arrive at once, so there is no rate to search for; use --flood"
        return
    one.search.tell(verdict.does_hold)
    if one.search.low is None and _is_settled(one.points):
        one.search.give_up()


def _is_settled(points: Sequence[dict[str, Any]]) -> bool:
    """Whether halving the rate no longer changes who meets the SLO: nobody waits any more."""
    last = points[-1 - NUM_EQUAL :]
    shares = {point["slo_attainment_ratio"] for point in last}
    is_slo = all(point["why_not"] == "SLO" for point in last)
    return is_slo and len(last) > NUM_EQUAL and len(shares) == 1
