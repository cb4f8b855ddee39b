"""`flocksim-calibrate validate`: a profile against measurements."""

import argparse
import sys
from pathlib import Path

from experiments.calibrate.named_kernels import kernels_named
from experiments.calibrate.tables import (
    comparison_table,
    csv_text,
    left_out_lines,
    unfitted_lines,
    worst_lines,
)
from experiments.cli import EXIT_OK
from experiments.results.atomic import make_writable, remove_files, write_text
from experiments.results.json_text import json_text
from experiments.summary import make_console
from hwmodels.fitting.rows_file import is_rows_file, read_rows_file
from hwmodels.fitting.rows_validation import compare_rows
from hwmodels.fitting.validation import compare, record_of
from hwmodels.kernels.models import KernelModels

FILES = ("validation.csv", "validation.json", "predicted_against_measured.png")


def validate(given: argparse.Namespace) -> int:
    """Compare a profile with the tables or rows of its device and print how far it is off.

    Raises:
        FlocksimError: the profile or a table cannot be read, or a file cannot be written.
    """
    models = kernels_named(given.profile)
    directory = None if given.figures is None else Path(given.figures)
    if directory is not None:
        make_writable(directory, FILES)
    data = Path(given.data)
    if is_rows_file(data):
        found = compare_rows(models, read_rows_file(data))
    else:
        found = compare(models, data)
    report = {
        "device": models.device,
        "date": models.date,
        "comparisons": [record_of(one) for one in found],
        "extrapolated": extrapolated(models),
    }
    if given.json:
        sys.stdout.write(json_text(report))
    else:
        make_console().print(comparison_table(models, found))
        lines = worst_lines(found) + left_out_lines(found) + unfitted_lines(found)
        for line in lines + warnings_of(models):
            print(line)
    if directory is not None:
        from experiments.calibrate.figure import comparison_figure
        from experiments.calibrate.figure_set import calibration_figures
        from experiments.figures.save import write_picture

        write_text(directory / FILES[0], csv_text(found))
        write_text(directory / FILES[1], json_text(report))
        write_picture(comparison_figure(models.device, found), directory / FILES[2])
        pictures = calibration_figures(models, found)
        remove_files(directory, [name for name, figure in pictures.items() if figure is None])
        for name, figure in pictures.items():
            if figure is not None:
                write_picture(figure, directory / name)
    return EXIT_OK


def extrapolated(models: KernelModels) -> list[str]:
    """Kernels of a profile that were taken from another device."""
    return [name for name, record in models.provenance.items() if record.is_extrapolated]


def warnings_of(models: KernelModels) -> list[str]:
    """A line per kernel whose numbers nobody measured on this device."""
    sources = {name: models.provenance[name].source for name in extrapolated(models)}
    return [
        f"{name}: extrapolated, no error known. {source.split(' There:')[0]}"
        for name, source in sources.items()
    ]
