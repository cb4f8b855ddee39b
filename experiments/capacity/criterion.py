"""When a rate is sustained, judged by the jobs that ran at it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Document = Mapping[str, Any]
"""Content of a result.json."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """What must hold at a rate.

    Attributes:
        attainment: share of the requests that must meet the SLO; None: latencies do not matter.
    """

    attainment: float | None

    def judge(self, documents: Sequence[Document]) -> "Verdict":
        """Verdict on the jobs of one rate, which differ in their seed alone.

        The share is that of the requests of all of them. Most of them must be stable: a single
        run of a stable system looks unstable now and then.
        """
        shares = [one["metrics"]["slo_attainment_ratio"] or 0.0 for one in documents]
        regimes = [str(one["regime"] or "none") for one in documents]
        unstable = [regime for regime in regimes if regime != "stable"]
        share = float(sum(shares)) / len(shares)
        is_stable = 2 * len(unstable) < len(regimes)
        is_met = self.attainment is None or share >= self.attainment
        if not is_stable:
            why = max(set(unstable), key=lambda regime: (unstable.count(regime), regime))
        else:
            why = "" if is_met else "SLO"
        return Verdict(does_hold=is_stable and is_met, why=why, attainment=share)


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
