"""`flocksim-calibrate fit` on a file of microbenchmark rows: a device profile and its kernels."""

import argparse
import sys
from pathlib import Path
from typing import Any

from experiments.calibrate.fit import tell
from experiments.calibrate.rows_target import target_of
from experiments.cli import EXIT_OK
from experiments.results.atomic import make_writable, write_text
from experiments.results.json_text import json_text
from hwmodels.fitting.recipe import FittedKernel
from hwmodels.fitting.rows_device import device_record
from hwmodels.fitting.rows_file import read_rows_file
from hwmodels.fitting.rows_fit import RowsFit, fit_rows
from hwmodels.fitting.rows_priors import priors_of
from hwmodels.fitting.transfer import donor_of
from hwmodels.kernels.models import KERNEL_CLASSES, KernelModels
from hwmodels.kernels.provenance import Provenance
from hwmodels.strict_json import shown
from sim.errors import ConfigError


def fit_to_rows(given: argparse.Namespace) -> int:
    """Fit a device to a file of rows and write its profile, kernels beside it.

    Raises:
        FlocksimError: the rows cannot be read or belong to another GPU, or a file cannot be
            written.
    """
    if given.out is not None and not given.out.endswith(".json"):
        raise ConfigError(f"--out must end in .json, found {shown(given.out)}")
    file = read_rows_file(Path(given.data))
    target = target_of(given, file)
    device, out = target.device, target.out
    kernels = out.parent / "kernels" / out.name
    make_writable(out.parent, [out.name])
    make_writable(kernels.parent, [kernels.name])
    date = given.date or file.header.date
    fit = fit_rows(device, file, priors_of(device, date))
    models = fit.profile(date)
    _report(fit, models)
    if not target.is_kept:
        write_text(out, json_text(device_record(device)))
        print(out)
    write_text(kernels, json_text(models.to_json()))
    print(kernels)
    return EXIT_OK


_HELD = ("stream", "packed")
"""Benchmarks whose constants are part of a kernel of the profile."""


def _constants(found: FittedKernel[Any]) -> str:
    """Constants that no profile holds, with their standard errors."""
    parts = []
    for name, value in found.result.values.items():
        error = found.result.standard_errors[name]
        spread = "not identified" if error is None else f"+- {error:.2g}"
        parts.append(f"{name} {value:.4g} ({spread})")
    return ", ".join(parts)


def _report(fit: RowsFit, models: KernelModels) -> None:
    for name, found in fit.fitted.items():
        tell(name, found)
        if name not in KERNEL_CLASSES and name not in _HELD:
            print(f"  {_constants(found)}", file=sys.stderr)
    for name, note in fit.notes.items():
        print(f"{name}: {note}", file=sys.stderr)
    for name, number in fit.file.num_failures.items():
        print(f"{name}: {number} cases could not be measured", file=sys.stderr)
    for name, record in models.provenance.items():
        if record.is_extrapolated:
            print(f"{name}: no rows, {_origin(record, fit)} (extrapolated)", file=sys.stderr)


def _origin(record: Provenance, fit: RowsFit) -> str:
    """Where a kernel without rows comes from."""
    donor, origin = donor_of(record), fit.priors.origin
    if origin != fit.device.name:
        return f"from {donor or origin}"
    told = f"as in profile {origin}"
    return told if donor is None else f"{told}, transferred from {donor}"
