"""Ctrl-C that waits until what is being written is complete, or that no library disguises."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sim.interrupts import RaisingHandler


@contextmanager
def deferred_interrupt() -> Iterator[None]:
    """Let the first Ctrl-C take effect at the end of the block; a second one ends it at once.

    Raises:
        KeyboardInterrupt: Ctrl-C came meanwhile.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    num_signals = 0

    def note(_number: int, _frame: Any) -> None:
        nonlocal num_signals
        num_signals += 1
        if num_signals > 1:
            raise KeyboardInterrupt

    old = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if old is None else old)
    if num_signals:
        raise KeyboardInterrupt


@contextmanager
def undisguised_interrupts() -> Iterator[None]:
    """Let the block end with KeyboardInterrupt whatever exception leaves it after Ctrl-C.

    A library that is interrupted in the middle of something may raise an error of its own instead.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    is_seen = False

    def note(number: int, frame: Any) -> None:
        nonlocal is_seen
        is_seen = True
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, RaisingHandler(note))
    try:
        yield
    except Exception:
        if is_seen:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
