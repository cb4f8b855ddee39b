"""Files of figures of traces."""

from collections.abc import Sequence
from pathlib import Path

from experiments.figures import FORMATS
from experiments.results.atomic import make_writable
from sim.errors import ConfigError
from sim.workload import Workload
from traces.analysis.facts import TraceFacts

Drawn = tuple[str, Workload, TraceFacts]
"""Name, trace and facts."""


def check_figure(path: Path) -> None:
    """Prove that a figure can be written there, before anything is read.

    Raises:
        FlocksimError: it cannot, or the suffix is no format.
    """
    suffix = path.suffix.removeprefix(".")
    if suffix not in FORMATS:
        allowed = ", ".join(f".{name}" for name in FORMATS)
        raise ConfigError(f"--figure {path}: must end in one of {allowed}")
    make_writable(path.parent, [path.name])


def draw(path: Path, traces: Sequence[Drawn]) -> None:
    """Draw one or two traces into a file."""
    from experiments.figures.save import write_picture
    from experiments.trace_cli.figure import trace_figure

    write_picture(trace_figure(traces), path)
