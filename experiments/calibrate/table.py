"""`flocksim-calibrate table`: measured points that stand in for the fitted form."""

import argparse
import datetime
import sys
from pathlib import Path

from experiments.calibrate.named_kernels import refuse_device_profile
from experiments.cli import EXIT_OK
from experiments.quantities import count
from experiments.results.atomic import make_writable, write_text
from hwmodels.device import load_profile
from hwmodels.fitting.rows_file import is_rows_file
from hwmodels.measurements.rows import MeasuredRows
from hwmodels.tables.build import table_of_file, table_of_folder
from hwmodels.tables.points import MeasuredPoints


def table(given: argparse.Namespace) -> int:
    """Write the table of a device.

    Raises:
        FlocksimError: the measurements cannot be read, the device has no fitted kernels, or the
            table cannot be written.
    """
    device = load_profile(given.device)
    out = Path(given.out or f"{device.name}.table.json")
    refuse_device_profile(out)
    make_writable(out.parent, [out.name])
    date = given.date or datetime.date.today().isoformat()
    data = Path(given.data)
    make = table_of_file if is_rows_file(data) else table_of_folder
    write_text(out, make(device, data, date, _tell).to_text())
    print(out)
    return EXIT_OK


def _tell(points: MeasuredPoints, rows: MeasuredRows) -> None:
    line = f"{points.kernel}: {count(points.num_points)} points"
    errors = points.heldout
    if errors is None:
        line += ", too few shapes to hold any out"
    else:
        form, both = (f"{100 * mape:.1f} %" for mape in (errors.form_mape, errors.table_mape))
        line += f", error on {count(errors.num_shapes)} held-out shapes {both}, form alone {form}"
    if not points.is_used:
        line += "; no better than the form, which stays"
    print(line, file=sys.stderr)
    for entry in rows.left_out:
        print(f"  {count(entry.num_rows)} rows left out: {entry.reason}", file=sys.stderr)
