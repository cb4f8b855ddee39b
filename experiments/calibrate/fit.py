"""`flocksim-calibrate fit`: kernel models from a folder of measurements, or a file of rows."""

import argparse
import datetime
import sys
from pathlib import Path
from typing import Any

from experiments.calibrate.named_kernels import refuse_device_profile
from experiments.cli import EXIT_OK
from experiments.quantities import count
from experiments.results.atomic import make_writable, write_text
from experiments.results.json_text import json_text
from hwmodels.fitting.device_fit import fit_device
from hwmodels.fitting.recipe import FittedKernel
from hwmodels.fitting.rows_file import is_rows_file
from hwmodels.kernels.provenance import POOR_HELDOUT_MAPE


def fit(given: argparse.Namespace) -> int:
    """Fit a device and write its profile.

    Raises:
        FlocksimError: the tables cannot be read, or the profile cannot be written.
    """
    if is_rows_file(Path(given.data)):
        from experiments.calibrate.rows_fit import fit_to_rows

        return fit_to_rows(given)
    out = Path(given.out or f"{given.device}.json")
    refuse_device_profile(out)
    make_writable(out.parent, [out.name])
    date = given.date or datetime.date.today().isoformat()
    models = fit_device(given.device, Path(given.data), date, tell)
    write_text(out, json_text(models.to_json()))
    print(out)
    return EXIT_OK


def tell(kernel: str, found: FittedKernel[Any] | None) -> None:
    """A line about a fitted or transferred kernel (None), on standard error."""
    if found is None:
        print(f"{kernel}: transferred from another device (extrapolated)", file=sys.stderr)
        return
    held_out = f"error on held-out shapes {100 * found.held_out.mape:.2f} %"
    line = f"{kernel}: {count(found.rows.num_rows)} rows, {held_out}"
    if found.result.not_identified:
        line += f"; not identified: {', '.join(found.result.not_identified)}"
    if found.result.at_bound:
        line += f"; at the upper bound: {', '.join(found.result.at_bound)}"
    print(line, file=sys.stderr)
    if found.provenance.is_poorly_fitted:
        print(
            f"warning: {kernel}: the fit is poor, error on held-out shapes "
            f"{100 * found.held_out.mape:.0f} % (above {100 * POOR_HELDOUT_MAPE:.0f} %): check the "
            "unit and the rows",
            file=sys.stderr,
        )
    for name, errors in found.held_out_parts.items():
        print(f"  {name}: {100 * errors.mape:.2f} %", file=sys.stderr)
    for entry in found.rows.left_out:
        print(f"  {count(entry.num_rows)} rows left out: {entry.reason}", file=sys.stderr)
