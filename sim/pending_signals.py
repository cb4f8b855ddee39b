"""Lets Ctrl-C in, which Python notices only between instructions of its own.

The event loop may be machine code that executes none of these for long; this module never is.
"""


def handle_pending_signals() -> None:
    """Run the handlers of signals that have come: entering any function of Python does."""
