"""Comparisons of a measured run on the terminal."""

from typing import TYPE_CHECKING

from experiments.calibrate.against.figures_of import Pair, pairs, rate_pairs
from experiments.calibrate.against.host_constants import CONSTANTS
from experiments.calibrate.against.report import heldout_errors, heldout_pairs
from experiments.calibrate.against.study import Fitted, Study
from experiments.quantities import count, duration, rate

if TYPE_CHECKING:
    from rich.table import Table

_UNITS = {"output_tokens_per_s": "tokens", "request_rate_per_s": "requests"}

_TITLES = {"output_tokens_per_s": "output", "request_rate_per_s": "finished"}


def figures_table(study: Study) -> "Table":
    """Every figure, measured beside simulated as configured."""
    measured, simulated = study.measured, study.simulated
    num = count(int(simulated.is_done.sum()))
    made = _table(f"{num} requests, simulated as configured", "measured", "simulated", "error")
    found = pairs(measured, simulated, 0.0, simulated.is_done)
    for name, pair in {**found, **rate_pairs(measured, simulated)}.items():
        made.add_row(
            _title(name), _shown(name, pair.measured), _shown(name, pair.simulated), _percent(pair)
        )
    return made


def heldout_table(study: Study, fitted: Fitted) -> "Table":
    """Every figure of the requests that the fit did not see, as configured and fitted."""
    num = count(int(fitted.is_heldout.sum()))
    title = f"{num} requests that the fit did not see"
    made = _table(title, "measured", "as configured", "error", "fitted", "error")
    before, after = heldout_pairs(study, fitted)
    for name, pair in after.items():
        made.add_row(
            _title(name),
            _shown(name, pair.measured),
            _shown(name, before[name].simulated),
            _percent(before[name]),
            _shown(name, pair.simulated),
            _percent(pair),
        )
    return made


def constant_lines(fitted: Fitted) -> list[str]:
    """A line per constant: what it was, what it is, how certain."""
    lines = []
    for one in CONSTANTS:
        if one.name not in fitted.fit.values:
            continue
        error_s = fitted.fit.standard_errors[one.name]
        prior_s, value_s = fitted.prior[one.name], fitted.fit.values[one.name]
        line = f"{one.title} ({one.name}): {duration(prior_s)} before, "
        if error_s is None:
            lines.append(f"{line}not identified, kept")
        else:
            lines.append(f"{line}{duration(value_s)} fitted, standard error {duration(error_s)}")
    return lines


def error_line(study: Study, fitted: Fitted) -> str:
    """Mean absolute errors on the requests that the fit did not see."""
    before, after = heldout_errors(study, fitted)
    parts = [
        f"{name.removesuffix('_ratio').upper()} {100 * before[name]:.1f} % before, "
        f"{100 * error:.1f} % after"
        for name, error in after.items()
    ]
    return f"mean absolute error on requests held out: {'; '.join(parts)}"


def _table(title: str, *columns: str) -> "Table":
    from rich.table import Table

    made = Table(title=title, title_justify="left")
    made.add_column("")
    for name in columns:
        made.add_column(name, justify="right")
    return made


def _title(name: str) -> str:
    if name in _TITLES:
        return _TITLES[name]
    quantity, statistic, _ = name.split("_")
    return f"{quantity.upper()} {statistic}"


def _shown(name: str, value: float) -> str:
    return rate(value, _UNITS[name]) if name in _UNITS else duration(value)


def _percent(pair: Pair) -> str:
    return f"{100 * pair.error:+.1f} %"
