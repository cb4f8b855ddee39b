"""Numbers for people: at most four digits, with a unit that fits."""

_TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
_BYTE_UNITS = ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
ABSENT = "-"


def duration(value_s: float | int | None) -> str:
    """Seconds as s, ms or us."""
    if value_s is None:
        return ABSENT
    for unit_s, unit in _TIME_UNITS:
        if abs(value_s) >= unit_s:
            return f"{digits(value_s / unit_s)} {unit}"
    return "0 s" if value_s == 0 else f"{value_s:.3g} s"


def amount(num_bytes: float | int | None) -> str:
    """Bytes with a decimal prefix."""
    if num_bytes is None:
        return ABSENT
    for unit_bytes, unit in _BYTE_UNITS:
        if num_bytes >= unit_bytes:
            return f"{digits(num_bytes / unit_bytes)} {unit}"
    return f"{num_bytes:g} B"


def percent(ratio: float | int | None) -> str:
    """A ratio as a percentage."""
    return ABSENT if ratio is None else f"{100 * ratio:.1f} %"


def rate(value_per_s: float | int | None, unit: str) -> str:
    """Something per second."""
    return ABSENT if value_per_s is None else f"{digits(value_per_s)} {unit}/s"


def count(value: float | int | None) -> str:
    """A whole number with thousands separators."""
    return ABSENT if value is None else f"{value:,.0f}"


def digits(value: float | int | None) -> str:
    """About three significant digits, never an exponent."""
    if value is None:
        return ABSENT
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 0.01 or value == 0 else f"{value:.2g}"
