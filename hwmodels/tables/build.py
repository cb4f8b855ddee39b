"""A table of a device from its measurements."""

from collections.abc import Callable, Mapping
from pathlib import Path

from hwmodels.device import DeviceSpec
from hwmodels.fitting.device_plan import plans_of
from hwmodels.fitting.rows_device import check_same_gpu
from hwmodels.fitting.rows_file import read_rows_file
from hwmodels.kernels.models import KernelModels
from hwmodels.measurements.rows import MeasuredRows, file_sha256
from hwmodels.tables.axes import TABLED_KERNELS
from hwmodels.tables.device_table import DeviceTable, check_compared
from hwmodels.tables.from_rows import points_by_kernel
from hwmodels.tables.heldout import heldout_errors
from hwmodels.tables.points import MeasuredPoints, points_of
from sim.errors import ConfigError

Report = Callable[[MeasuredPoints, MeasuredRows], None]
"""Told of the points of each kernel and the rows that they come from."""


def table_of_folder(
    device: DeviceSpec, folder: Path, date: str, report: Report | None = None
) -> DeviceTable:
    """Table of a device from a folder of tables, those that a fit reads too.

    Args:
        device: with fitted kernels, which the points are compared with.
        folder: with the layout of `hwmodels.measurements.data_folder.TABLES`.
        date: stated in the table, ISO 8601; the rest depends on the measurements alone.
        report: told of each kernel.

    Raises:
        ConfigError: no tables of the device are known, one cannot be read, or a kernel of it has
            no fitted form.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder of measurements")
    models = device.kernels
    rows: dict[str, MeasuredRows] = {}
    files: set[str] = set()
    for plan in plans_of(device):
        if plan.kernel in TABLED_KERNELS:
            rows[plan.kernel] = plan.load(folder)
            files.update(plan.files)
    inputs = {name: file_sha256(folder / name) for name in sorted(files)}
    return table_of_rows(models, rows, inputs, date, report)


def table_of_file(
    device: DeviceSpec, path: Path, date: str, report: Report | None = None
) -> DeviceTable:
    """Table of a device from a file of microbenchmark rows; arguments as for a folder.

    Raises:
        ConfigError: the file cannot be read, was measured on another GPU, or has no row of a
            kernel that a table can hold.
    """
    file = read_rows_file(path)
    check_same_gpu(device, file)
    models = device.kernels
    rows = points_by_kernel(file, models)
    if not rows:
        raise ConfigError(f"{path}: no row of a kernel that a table can hold")
    return table_of_rows(models, rows, {path.name: file.sha256}, date, report)


def table_of_rows(
    models: KernelModels,
    rows: Mapping[str, MeasuredRows],
    inputs: Mapping[str, str],
    date: str,
    report: Report | None = None,
) -> DeviceTable:
    """Table of measured rows by kernel, one row per point.

    Raises:
        ConfigError: a kernel has rows but no fitted form, or a size is not allowed.
    """
    points = {kernel: points_of(kernel, found) for kernel, found in rows.items()}
    check_compared(_table(models, points, inputs, date), models)
    for kernel, found in points.items():
        errors = heldout_errors(found, getattr(models, kernel))
        points[kernel] = found.with_errors(errors)
        if report is not None:
            report(points[kernel], rows[kernel])
    return _table(models, points, inputs, date)


def _table(
    models: KernelModels,
    points: Mapping[str, MeasuredPoints],
    inputs: Mapping[str, str],
    date: str,
) -> DeviceTable:
    return DeviceTable(
        device=models.device,
        date=date,
        compared_with=models.date,
        inputs=inputs,
        kernels=dict(points),
    )
