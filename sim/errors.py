"""Errors that carry a user's mistake to one clear line.

Every constructor takes positional arguments only: SimPy re-creates an exception raised inside an
event as ``type(error)(*error.args)``.
"""


class FlocksimError(Exception):
    """Base of every error that ends in one line for the user and exit code 2."""


class ConfigError(FlocksimError):
    """A configuration value is unknown, out of range, or does not fit the others."""


class TraceFormatError(FlocksimError):
    """A trace file breaks its format; says where.

    Args:
        path: the file as the user named it.
        line: line number from 1; 0 when the whole file is meant.
        why: what is wrong, with the offending value and what is allowed.
    """

    def __init__(self, path: str, line: int, why: str) -> None:
        super().__init__(path, line, why)
        self.path = path
        self.line = line
        self.why = why

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}" if self.line else self.path
        return f"{where}: {self.why}"


class InvalidDecisionError(FlocksimError):
    """A policy returned something the engine cannot carry out.

    Args:
        policy: the policy's class name.
        why: the decision and what would have been allowed.
    """

    def __init__(self, policy: str, why: str) -> None:
        super().__init__(policy, why)
        self.policy = policy
        self.why = why

    def __str__(self) -> str:
        return f"policy {self.policy}: {self.why}"


class CapacityError(FlocksimError):
    """A model or a request can never fit the hardware it is asked to run on."""


class CalibrationError(FlocksimError):
    """Measurements cannot be fitted, or a profile does not describe the device asked for."""


class InvariantError(FlocksimError):
    """The simulator broke one of its own numbered invariants (a defect, please report it)."""
