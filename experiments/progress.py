"""Progress of a simulation on the terminal; silent where standard error is none."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[float, int], None]


@contextmanager
def progress_bar(num_requests: int, label: str) -> Iterator[Progress | None]:
    """Callback for `simulate()`, or None where nobody watches.

    Args:
        num_requests: requests of the workload.
        label: what runs, shown in front.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=12),
        TaskProgressColumn(),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f} done"),
        TextColumn("at {task.fields[now_s]:,.0f} s"),
        TextColumn("{task.fields[rate_per_s]}"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, refresh_per_second=4) as bar:
        task = bar.add_task(label, total=num_requests, now_s=0.0, rate_per_s="")

        def report(now_s: float, num_done: int) -> None:
            elapsed_s = bar.tasks[0].elapsed or 0.0
            rate = f"{num_done / elapsed_s:,.0f}/s" if elapsed_s > 0 else ""
            bar.update(task, completed=num_done, now_s=now_s, rate_per_s=rate)

        yield report
