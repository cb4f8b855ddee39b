"""When a rate is sustained, judged by the jobs that ran at it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.quantities import percent

Document = Mapping[str, Any]
"""Content of a result.json."""

_MOST_PLACES = 9
"""Decimals of a percentage; more are rounding errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """What must hold at a rate.

    Attributes:
        attainment: share of the requests that must meet the SLO; None: latencies do not matter.
    """

    attainment: float | None

    def judge(self, documents: Sequence[Document]) -> "Verdict":
        """Verdict on the jobs of one rate, which differ in their seed alone.

        The share is that of the requests of all of them. Most of their runs (replications) must be
        stable: a single run of a stable system looks unstable now and then.
        """
        shares = [one["metrics"]["slo_attainment_ratio"] or 0.0 for one in documents]
        runs = [run for one in documents for run in one.get("replications") or [one]]
        regimes = [str(run["regime"] or "none") for run in runs]
        unstable = [regime for regime in regimes if regime != "stable"]
        share = float(sum(shares)) / len(shares)
        is_stable = 2 * len(unstable) < len(regimes)
        is_met = self.attainment is None or share >= self.attainment
        if not is_stable:
            why = max(set(unstable), key=lambda regime: (unstable.count(regime), regime))
        else:
            why = "" if is_met else "SLO"
        return Verdict(does_hold=is_stable and is_met, why=why, attainment=share)

    def percent(self, share: float) -> str:
        """A share as a percentage, with the digits that tell it from the one asked for."""
        if self.attainment is None:
            return percent(share)
        is_met, least = share >= self.attainment, round(100 * self.attainment, _MOST_PLACES)
        given = len(f"{least:.{_MOST_PLACES}f}".rstrip("0").partition(".")[2])
        texts = [f"{100 * share:.{places}f}" for places in range(max(2, given), _MOST_PLACES + 1)]
        return next((one for one in texts if (float(one) >= least) == is_met), texts[-1]) + " %"

    def told(self, share: float) -> str:
        """That percentage, and whether it is enough."""
        if self.attainment is None:
            return self.percent(share)
        return f"{self.percent(share)} ({'met' if share >= self.attainment else 'missed'})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a rate is sustained.

    Attributes:
        does_hold: it is.
        why: what does not hold (a regime, or SLO), empty if it is sustained.
        attainment: share of the requests that met the SLO.
    """

    does_hold: bool
    why: str
    attainment: float
