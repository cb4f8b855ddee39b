"""Progress of a long read or write on the terminal; silent where standard error is none."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Progress = Callable[[int, int], None]
"""Called with how much is done and how much there is."""


@contextmanager
def progress_of(label: str) -> Iterator[Progress | None]:
    """Callback for a reader or a writer, or None where nobody watches.

    Args:
        label: what is read or written; of a path the name is shown.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Bar(*columns, console=console, transient=True, refresh_per_second=4) as bar:
        task = bar.add_task(Path(label).name or label, total=None)

        def report(num_done: int, num_all: int) -> None:
            bar.update(task, completed=num_done, total=num_all)

        yield report
