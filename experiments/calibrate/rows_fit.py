"""`flocksim-calibrate fit` on a file of microbenchmark rows: a device profile and its kernels."""

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from experiments.calibrate.fit import tell
from experiments.cli import EXIT_OK
from experiments.results.atomic import make_writable, write_text
from experiments.results.json_text import json_text
from hwmodels.device import DeviceSpec, available_profiles, load_profile
from hwmodels.fitting.recipe import FittedKernel
from hwmodels.fitting.rows_device import check_same_gpu, device_of_rows, device_record
from hwmodels.fitting.rows_file import RowsFile, read_rows_file
from hwmodels.fitting.rows_fit import RowsFit, fit_rows
from hwmodels.fitting.rows_priors import priors_of
from hwmodels.kernels.models import KERNEL_CLASSES, KernelModels
from hwmodels.strict_json import looks_like_path, shown
from sim.errors import ConfigError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def fit_to_rows(given: argparse.Namespace) -> int:
    """Fit a device to a file of rows and write its profile, kernels beside it.

    Raises:
        FlocksimError: the rows cannot be read or belong to another GPU, or a file cannot be
            written.
    """
    if given.out is not None and not given.out.endswith(".json"):
        raise ConfigError(f"--out must end in .json, found {shown(given.out)}")
    file = read_rows_file(Path(given.data))
    device = _device(given.device, file)
    out = Path(given.out or f"{device.name}.json")
    kernels = out.parent / "kernels" / out.name
    make_writable(out.parent, [out.name])
    make_writable(kernels.parent, [kernels.name])
    date = given.date or file.header.date
    fit = fit_rows(device, file, priors_of(device, date))
    models = fit.profile(date)
    _report(fit, models)
    # A profile of the user's own may say more than its constants, and stays as it is.
    if not (looks_like_path(given.device) and out.exists() and out.samefile(given.device)):
        write_text(out, json_text(device_record(device)))
        print(out)
    write_text(kernels, json_text(models.to_json()))
    print(kernels)
    return EXIT_OK


def _device(name: str, file: RowsFile) -> DeviceSpec:
    """A profile by name or path; under a name that no profile has, one made from the rows.

    Raises:
        ConfigError: the profile is of another GPU, or the name is none.
    """
    if looks_like_path(name) or name in available_profiles():
        device = load_profile(name)
        check_same_gpu(device, file)
        return device
    if not _NAME.fullmatch(name):
        raise ConfigError(f"--device must be a name or a .json path, found {shown(name)}")
    device = device_of_rows(name, file)
    print(f"{name}: no such profile, made from the rows of {device.title}", file=sys.stderr)
    return device


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
            print(f"{name}: no rows, from {fit.priors.origin} (extrapolated)", file=sys.stderr)
