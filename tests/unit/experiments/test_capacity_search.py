"""The bracketing search and the verdict on a rate."""

import math
from typing import Any

import pytest

from experiments.capacity.criterion import Criterion
from experiments.capacity.points import Policy
from experiments.capacity.search import MAX_DOUBLINGS, Search, rounded
from experiments.capacity.study import policies_of
from sim.errors import ConfigError


def searched(limit: float, start: float = 1.0, tolerance: float = 0.02) -> Search:
    """A search for a known limit: factors up to it hold."""
    search = Search(start, tolerance)
    while search.next_factor is not None:
        search.tell(search.next_factor <= limit)
    return search


@pytest.mark.parametrize("limit", [0.003, 0.7, 1.0, 1.01, 1.99, 2.0, 37.0, 900.0])
@pytest.mark.parametrize("start", [1.0, 0.37, 16.0])
@pytest.mark.parametrize("tolerance", [0.1, 0.02, 0.001])
def test_the_interval_holds_the_limit_and_is_as_narrow_as_asked(
    limit: float, start: float, tolerance: float
) -> None:
    search = searched(limit, start, tolerance)
    assert search.low is not None
    assert search.high is not None
    assert search.low <= limit < search.high
    assert search.high <= search.low * (1 + tolerance)
    # Doublings to the limit and one beyond, then halvings of log 2.
    doublings = abs(math.log2(limit / start)) + 2
    bisections = math.log2(math.log(2) / math.log1p(tolerance)) + 1
    assert search.num_points <= doublings + bisections


def test_the_search_goes_up_by_doubling_and_then_bisects_the_logarithm() -> None:
    search, factors = Search(1.0, 0.5), []
    while search.next_factor is not None:
        factors.append(search.next_factor)
        search.tell(search.next_factor <= 5.0)
    assert factors == [1.0, 2.0, 4.0, 8.0, rounded(math.sqrt(32))]
    assert (search.low, search.high) == (4.0, rounded(math.sqrt(32)))


def test_the_search_gives_up_where_everything_or_nothing_holds() -> None:
    always, never = searched(math.inf), searched(0.0)
    assert (always.high, never.low) == (None, None)
    assert always.low == pytest.approx(2.0**MAX_DOUBLINGS, rel=1e-5)
    assert never.high == pytest.approx(2.0**-MAX_DOUBLINGS, rel=1e-5)
    assert always.num_points == never.num_points == MAX_DOUBLINGS + 1


def document(share: float | None, regime: str | None) -> dict[str, Any]:
    return {"metrics": {"slo_attainment_ratio": share}, "regime": regime}


@pytest.mark.parametrize(
    ("shares", "regimes", "why"),
    [
        ([0.9], ["stable"], ""),
        ([0.89], ["stable"], "SLO"),
        ([1.0], ["overloaded"], "overloaded"),
        ([1.0], ["backlogged"], "backlogged"),
        ([0.0], ["backlogged"], "backlogged"),
        ([1.0], [None], "none"),
        ([1.0, 0.8], ["stable", "stable"], ""),
        ([1.0, 0.79], ["stable", "stable"], "SLO"),
        ([1.0, 1.0], ["stable", "overloaded"], "overloaded"),
        ([1.0, 1.0, 1.0], ["stable", "overloaded", "stable"], ""),
        ([1.0, 1.0, 1.0], ["backlogged", "overloaded", "backlogged"], "backlogged"),
        ([None], ["stable"], "SLO"),
    ],
)
def test_a_rate_is_sustained_if_the_share_is_met_and_most_runs_are_stable(
    shares: list[float | None], regimes: list[str | None], why: str
) -> None:
    verdict = Criterion(attainment=0.9).judge(list(map(document, shares, regimes)))
    assert (verdict.why, verdict.does_hold) == (why, not why)


def test_without_an_slo_stability_alone_counts() -> None:
    assert Criterion(attainment=None).judge([document(0.0, "stable")]).does_hold


def test_policies_are_every_combination_of_values() -> None:
    found = policies_of(["routing=jsq,random", "engine.max_num_seqs=64,64, 256"])
    assert [policy.name for policy in found] == [
        "jsq + 64",
        "jsq + 256",
        "random + 64",
        "random + 256",
    ]
    assert found[1].overrides == ("routing=jsq", "engine.max_num_seqs=256")
    assert found[1].folder == "routing=jsq,engine.max_num_seqs=256"
    assert policies_of([]) == (Policy(()),)
    assert Policy(()).name == "as given"


@pytest.mark.parametrize("item", ["routing", "=jsq", "routing=jsq,,random", "routing="])
def test_policies_without_values_are_refused(item: str) -> None:
    with pytest.raises(ConfigError, match=f"--policies {item}: must be like"):
        policies_of([item])
