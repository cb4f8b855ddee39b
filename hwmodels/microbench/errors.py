"""Mistakes that end in one clear line and exit code 2, and cases that cannot be measured."""


class MicrobenchError(Exception):
    """A mistake of the user: a bad option, the wrong GPU, a rows file that is broken."""


class CaseError(MicrobenchError):
    """A case has a parameter that is missing, unknown or out of range."""


class RowsError(MicrobenchError):
    """A rows file breaks its format, or holds rows of another device; says where."""


class UnmeasurableError(Exception):
    """One case cannot be measured on this device; the others can."""
