"""The results of `flocksim-capacity`: a table, and capacity.json."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from experiments.capacity.criterion import Criterion
from experiments.capacity.floods import FloodAnswer
from experiments.capacity.rates import RateSearch
from experiments.quantities import ABSENT, digits

if TYPE_CHECKING:
    from rich.table import Table

SCHEMA_VERSION = 1


def rate_table(searches: Sequence[RateSearch], criterion: Criterion) -> "Table":
    """One row per policy: the interval in which its capacity lies."""
    table = _table("policy", "capacity, requests/s", "rate_scale", "SLO met", "above it", "runs")
    for one in searches:
        if one.fault:
            table.add_row(one.policy.name, *[ABSENT] * 3, "cannot run", _num_runs(one))
            continue
        low, high = one.point_at(one.search.low), one.point_at(one.search.high)
        table.add_row(
            one.policy.name,
            _interval(_rate(low), _rate(high), is_capped=one.search.high is not None),
            _interval(one.search.low, one.search.high, is_capped=one.search.high is not None),
            criterion.told(low["slo_attainment_ratio"]) if low else ABSENT,
            _why(high, criterion) if high else "sustained at every rate",
            _num_runs(one),
        )
    return table


def flood_table(answers: Sequence[FloodAnswer]) -> "Table":
    """One row per policy: its flood throughput."""
    table = _table("policy", "flood, requests/s", "95 % interval", "runs")
    for one in answers:
        half = one.half_width_per_s
        table.add_row(
            one.policy.name,
            _exact(one.mean_per_s),
            ABSENT if half is None else f"± {digits(half)}",
            str(one.num_runs),
        )
    return table


def rate_document(settings: Mapping[str, Any], searches: Sequence[RateSearch]) -> dict[str, Any]:
    """capacity.json of a search for rates."""
    policies = [
        {
            "policy": one.policy.name,
            "overrides": list(one.policy.overrides),
            "low": one.point_at(one.search.low),
            "high": one.point_at(one.search.high),
            "num_runs": sum(len(point["job_keys"]) for point in one.points),
            "points": sorted(one.points, key=lambda point: float(point["rate_scale"])),
            "error": one.fault or None,
        }
        for one in searches
    ]
    return {"schema_version": SCHEMA_VERSION, **settings, "policies": policies}


def flood_document(settings: Mapping[str, Any], answers: Sequence[FloodAnswer]) -> dict[str, Any]:
    """capacity.json of floods."""
    policies = [
        {
            "policy": one.policy.name,
            "overrides": list(one.policy.overrides),
            "flood_rate_per_s": one.mean_per_s,
            "half_width_95_per_s": one.half_width_per_s,
            "rates_per_s": one.rates_per_s,
            "does_drain_dominate": one.does_drain_dominate,
            "num_runs": one.num_runs,
            "job_keys": one.job_keys,
            "error": one.fault or None,
        }
        for one in answers
    ]
    return {"schema_version": SCHEMA_VERSION, **settings, "policies": policies}


def _table(*titles: str) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column(titles[0])
    for title in titles[1:]:
        table.add_column(title, justify="right")
    return table


def _num_runs(search: RateSearch) -> str:
    return str(sum(len(point["job_keys"]) for point in search.points))


def _interval(low: float | None, high: float | None, *, is_capped: bool) -> str:
    """What is known of a capacity: between two rates, below one, or above one."""
    if low is None:
        return f"none down to {_exact(high)}"
    return f"{_exact(low)} - {_exact(high)}" if is_capped else f">= {_exact(low)}"


def _exact(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.4g}"


def _rate(point: Mapping[str, Any] | None) -> float | None:
    return point["offered_rate_per_s"] if point else None


def _why(point: Mapping[str, Any], criterion: Criterion) -> str:
    if point["why_not"] == "SLO":
        return f"SLO met by {criterion.told(point['slo_attainment_ratio'])}"
    return str(point["why_not"])
