"""Files of figures: one per figure and format, byte for byte the same for the same runs."""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from experiments.figures import FORMATS, NAMES
from experiments.figures.catalogue import data_of, module_of, options_of, picture_of
from experiments.figures.enough_points import check_points
from experiments.figures.errors import FigureError
from experiments.figures.measured import measured_runs
from experiments.figures.study import Study, study_of
from experiments.figures.style import DPI, styled
from experiments.results.atomic import make_writable, write_atomically
from experiments.results.load import Run

_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""None leaves an entry out: no date, no version of the library."""


def save_figures(
    runs: Sequence[Run],
    directory: Path,
    formats: Sequence[str],
    options: Mapping[str, Any],
    say: Callable[[str], object] | None,
    policy_keys: Sequence[str],
    unit_keys: Sequence[str] = (),
) -> list[Path]:
    """Write every figure that the runs hold the data for; see `experiments.figures.save_all`.

    Every figure gets those of the options that it takes; None is none.
    """
    for suffix in formats:
        if suffix not in FORMATS:
            raise FigureError(f"unknown format {suffix!r}: must be one of {', '.join(FORMATS)}")
    tell = say or partial(print, file=sys.stderr)
    measured_runs(options.get("measured"))  # a bad file ends it before anything is drawn
    study = study_of(runs, policy_keys, unit_keys)
    files = [f"{name}.{suffix}" for name in NAMES for suffix in formats]
    make_writable(directory, files)
    for note in study.notes:
        tell(f"figures: {note}")
    written: list[Path] = []
    for name in NAMES:
        try:
            picture, notes = _picture(name, study, options)
        except FigureError as error:
            tell(f"figure {name} left out: {error}")
            continue
        for note in notes:
            tell(f"figure {name}: {note}")
        for suffix in formats:
            written.append(directory / f"{name}.{suffix}")
            write_picture(picture, written[-1])
    return written


def write_picture(picture: Figure, path: Path) -> None:
    """Write a figure to a file whose suffix is one of FORMATS, atomically.

    Raises:
        OutputError: the disk or the directory refuses.
    """
    suffix = path.suffix.removeprefix(".")

    def write(temporary: Path) -> None:
        with styled():
            picture.savefig(temporary, format=suffix, dpi=DPI, metadata=_METADATA[suffix])

    write_atomically(path, write)


def _picture(name: str, study: Study, options: Mapping[str, Any]) -> tuple[Figure, list[str]]:
    """A figure, and notes of its own on what it lacks."""
    module = module_of(name)
    given = {key: value for key, value in options.items() if value is not None}
    given = {key: value for key, value in given.items() if key in options_of(module)}
    check_points(name, study, has_measured="measured" in given)
    data = data_of(module, study, given)
    notes = [note for note in data.attrs["notes"] if note not in study.notes]
    return picture_of(module, data, study), notes
