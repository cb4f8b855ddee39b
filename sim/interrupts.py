"""Ctrl-C ends a simulation between two events, so that its records are consistent."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from sim.step_clock import StepClock

PATIENCE_S = 1.0
"""Ctrl-C within this time after the first, seconds, is the same one: some programs send two."""


class RaisingHandler:
    """A handler of Ctrl-C that raises KeyboardInterrupt, like Python's own, and does more.

    Args:
        handle: what it does; it must raise.
    """

    def __init__(self, handle: Callable[[int, FrameType | None], Any]) -> None:
        self._handle = handle

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal."""
        self._handle(number, frame)


@contextmanager
def stop_on_interrupt(clock: StepClock) -> Iterator[None]:
    """Inside the block the first Ctrl-C stops `clock` at its next event, a later one at once.

    Does nothing outside the main thread, or where somebody handles the signal who is neither Python
    nor a `RaisingHandler`. Compiled code must not be left by an exception of a handler wherever it
    is: so the first one only asks, and the second one comes when the event it waits for hangs.

    Raises:
        KeyboardInterrupt: the second one; what was recorded is torn then (`clock.is_torn`).
    """
    is_main = threading.current_thread() is threading.main_thread()
    old = signal.getsignal(signal.SIGINT)
    if not is_main or not (old is signal.default_int_handler or isinstance(old, RaisingHandler)):
        yield
        return
    first_s = -1.0

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal first_s
        now_s = time.monotonic()
        if first_s < 0:
            first_s = now_s
            clock.stop()
        elif now_s - first_s > PATIENCE_S:
            clock.is_torn = True
            assert callable(old)
            old(number, frame)

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, old)
