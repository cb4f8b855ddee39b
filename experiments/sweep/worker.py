"""A process that runs jobs for another one, and does not outlive it."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from experiments.sweep.task import Outcome, Task, no_progress, run_task

CHECK_S = 0.5
"""How often a worker looks whether its parent is alive, seconds of wall time."""


def watch_parent(parent: int) -> None:
    """End this process when its parent has ended, even if that was killed.

    A job that went on would hold the directory in which a resumed sweep is to write.

    Args:
        parent: process id of the parent.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(CHECK_S)
        os._exit(1)

    if hasattr(os, "getppid") and os.getppid() == parent:
        threading.Thread(target=watch, name="watch parent", daemon=True).start()


def work(task: Task) -> Outcome:
    """Run a task in this process, silently."""
    return run_task(task, no_progress)


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Ctrl-C takes effect after the block, and never in processes that are started inside it.

    A terminal sends it to all of them; the parent alone decides what becomes of the jobs.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # where it is not running, its start lets interrupts through
    old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)
