"""The cells of a study's tables, the same on the terminal and in Markdown."""

import math

from experiments.quantities import ABSENT, digits
from experiments.studies.findings import REPORTED, Row, Verdict

HEADINGS = ("setting", "quantity", "claim", "simulated", "±", "error", "role", "verdict")
"""Columns of a section; numbers from the third to the sixth."""

VERDICT_HEADINGS = ("promise", "limit", "found", "verdict")


def cells(row: Row) -> tuple[str, ...]:
    """A row as texts, in the order of HEADINGS."""
    error = row.error_ratio
    return (
        row.setting,
        f"{row.quantity} ({row.unit})",
        claim_text(row.claim),
        number(row.simulated.mean),
        number(row.simulated.half_width),
        ABSENT if error is None or math.isnan(error) else f"{100 * error:+.1f} %",
        row.role,
        verdict_text(row),
    )


def verdict_cells(verdict: Verdict) -> tuple[str, ...]:
    """A promise as texts, in the order of VERDICT_HEADINGS."""
    limit = verdict.limit_ratio
    shown = ABSENT if limit is None else f"{100 * limit:g} %"
    return (verdict.text, shown, f"{100 * verdict.value_ratio:.1f} %", verdict.word)


def verdict_text(row: Row) -> str:
    """The verdict with its limit."""
    if row.verdict == REPORTED or row.limit_ratio is None:
        return REPORTED
    return f"{row.verdict} ({100 * row.limit_ratio:g} %)"


def claim_text(claim: tuple[float, float] | None) -> str:
    """A value, or a range."""
    if claim is None:
        return ABSENT
    low, high = claim
    if low == high:
        return number(low)
    return f"{number(low)}{' to ' if low < 0 else '-'}{number(high)}"


def number(value: float) -> str:
    """About four significant digits."""
    if math.isnan(value):
        return ABSENT
    if value == 0 or abs(value) >= 100:
        return digits(value)
    return f"{value:.2f}"
