"""Errors of the figures."""

from sim.errors import FlocksimError


class FigureError(FlocksimError):
    """A figure does not exist, does not take an option, or the runs do not hold its data."""


class MeasuredError(FlocksimError):
    """A measured file cannot be read or is not a result of `vllm bench serve`."""
