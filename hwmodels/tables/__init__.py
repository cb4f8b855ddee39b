"""Measured kernel times that stand in for the fitted form where they exist.

A table holds measured points of some kernels of one device. The price of a kernel is its fitted
form times a factor: the ratio measured / form at the points, interpolated between them, fading to 1
away from them. `tabled(models, table)` puts such kernels in the place of the fitted ones.
"""

from hwmodels.tables.device_table import DeviceTable, load_table
from hwmodels.tables.join import tabled

__all__ = ["DeviceTable", "load_table", "tabled"]
