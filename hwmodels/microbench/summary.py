"""Lines and tables that a run prints."""

from collections.abc import Iterable, Sequence

from hwmodels.microbench.attention_cases import AttentionCase
from hwmodels.microbench.machine_cases import LaunchCase
from hwmodels.microbench.row_format import Failure, Row

_HEAD = ("case", "rows", "failed", "fastest", "slowest", "best GB/s", "best TFLOP/s", "largest err")


def progress_line(entry: Row | Failure, number: int, num_planned: int, left_s: float) -> str:
    """One line about a case that was just measured.

    Args:
        entry: what came of it.
        number: its number in the plan, from 1.
        num_planned: cases of the plan.
        left_s: seconds of the budget that remain.
    """
    where = f"[{number}/{num_planned}, {left_s:.0f} s left] {entry.case.id}"
    if isinstance(entry, Failure):
        return f"{where}: failed: {entry.why}"
    times = entry.measurement
    return f"{where}: {_time(times.p50_s)} ({_time(times.p20_s)} to {_time(times.p80_s)})"


def summary_table(rows: Iterable[Row], failures: Iterable[Failure]) -> str:
    """A table with one line per benchmark; rates count repeated reads, so L2 hits show."""
    measured = list(rows)
    failed = list(failures)
    names = dict.fromkeys([row.case.name for row in measured])
    names |= dict.fromkeys([failure.case.name for failure in failed])
    lines: list[tuple[str, ...]] = [_HEAD]
    for name in names:
        of_case = [row for row in measured if row.case.name == name]
        num_failed = sum(failure.case.name == name for failure in failed)
        lines.append(_line(name, of_case, num_failed))
    return _aligned(lines)


def _line(name: str, rows: Sequence[Row], num_failed: int) -> tuple[str, ...]:
    if not rows:
        return (name, "0", str(num_failed), *["-"] * 5)
    times_s = [row.measurement.p50_s for row in rows]
    has_bytes = not isinstance(rows[0].case, LaunchCase)
    rates = [row.case.read_bytes / row.measurement.p50_s for row in rows]
    flops = [(row.case.num_flops or 0) / row.measurement.p50_s for row in rows]
    errors = [row.measurement.max_error for row in rows if row.measurement.max_error is not None]
    return (
        name,
        str(len(rows)),
        str(num_failed),
        _time(min(times_s)),
        _time(max(times_s)),
        f"{max(rates) / 1e9:.0f}" if has_bytes else "-",
        f"{max(flops) / 1e12:.1f}" if _has_flops(rows[0]) else "-",
        f"{max(errors):.1e}" if errors else "-",
    )


def _has_flops(row: Row) -> bool:
    return row.case.num_flops is not None or isinstance(row.case, AttentionCase)


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = []
    for line in lines:
        first, *others = (
            cell.ljust(width) if not index else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        text.append("  ".join([first, *others]).rstrip())
    return "\n".join(text)


def _time(time_s: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if time_s >= scale:
            return f"{time_s / scale:.3g} {unit}"
    return f"{time_s / 1e-6:.3g} us"
