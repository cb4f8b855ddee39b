"""Ctrl-C that waits until what is being written is complete."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


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
