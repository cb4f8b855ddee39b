"""Ctrl-C ends a simulation between two events, so that its records are consistent."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from sim.step_clock import StepClock


@contextmanager
def stop_on_interrupt(clock: StepClock) -> Iterator[None]:
    """Inside the block the first Ctrl-C stops `clock` at its next event, a second one at once.

    Does nothing outside the main thread, or where somebody else handles the signal.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def stop(_signal: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        clock.stop()

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
