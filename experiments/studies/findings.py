"""What a study found: claims beside simulated values, and verdicts."""

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.stats.intervals import Interval

HOLDS, FAILS, REPORTED = "holds", "fails", "reported"
"""Verdicts of a row; `reported`: nothing was promised of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A simulated value beside what is claimed of it.

    Attributes:
        setting: what was simulated, for example "8B, 2.5 requests/s".
        quantity: what is compared, for example "ITL mean".
        unit: unit of all values of the row.
        claim: lowest and highest value claimed or measured, in `unit`; None if there is none.
        simulated: mean over the seeds and its interval, in `unit`.
        role: what the value was used for, for example "fitted"; may be empty.
        limit_ratio: largest relative error at which the row holds; None: it is only reported.
        at: abscissa of the row in a picture; None if it has none.
    """

    setting: str
    quantity: str
    unit: str
    claim: tuple[float, float] | None
    simulated: Interval
    role: str = ""
    limit_ratio: float | None = None
    at: float | None = None

    @property
    def error_ratio(self) -> float | None:
        """Simulated over the middle of the claim, less 1; None without a claim."""
        if self.claim is None:
            return None
        return self.simulated.mean / (sum(self.claim) / 2) - 1

    @property
    def verdict(self) -> str:
        """Whether the error is within the limit."""
        error = self.error_ratio
        if error is None or self.limit_ratio is None:
            return REPORTED
        return HOLDS if abs(error) <= self.limit_ratio else FAILS


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Rows under a heading.

    Attributes:
        title: the heading.
        rows: at least one.
        is_printed: on the terminal and in Markdown; else in the CSV and the picture alone.
    """

    title: str
    rows: tuple[Row, ...]
    is_printed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A promise about a study as a whole.

    Attributes:
        text: what is promised.
        value_ratio: what came out, a ratio.
        limit_ratio: at most this; None: nothing was promised.
    """

    text: str
    value_ratio: float
    limit_ratio: float | None = None

    @property
    def word(self) -> str:
        """Whether the promise is kept."""
        if self.limit_ratio is None:
            return REPORTED
        return HOLDS if self.value_ratio <= self.limit_ratio else FAILS


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Everything that a study found.

    Attributes:
        verdicts: promises, kept or not.
        sections: the rows.
        notes: what must be known to read them: what was fitted, what is assumed.
    """

    verdicts: tuple[Verdict, ...]
    sections: tuple[Section, ...]
    notes: tuple[str, ...]

    @property
    def printed(self) -> tuple[Section, ...]:
        """Sections for people."""
        return tuple(section for section in self.sections if section.is_printed)

    def section(self, title: str) -> Section:
        """The section of that title, which there is."""
        return next(section for section in self.sections if section.title == title)


def mean_absolute_error(rows: Sequence[Row]) -> float:
    """Mean of the absolute relative errors of rows that have a claim (MAPE as a ratio)."""
    errors = [abs(row.error_ratio) for row in rows if row.error_ratio is not None]
    return sum(errors) / len(errors)
