"""Rounding of fitted numbers, so that a profile repeats byte for byte on any machine."""


def rounded(value: float, digits: int = 5) -> float:
    """`value` with so many significant digits."""
    return float(f"{value:.{digits}g}")
