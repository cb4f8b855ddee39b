"""What executors reserve and move over the time of a run, from its steps.parquet."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.stats.intervals import Interval
from experiments.studies.feather.rows import SeriesRow
from sim.units import GIB

NUM_PERIODS = 60
"""Equal periods of a run, each a mean over the time of its steps."""

SECTIONS = {
    "kv_reserved_bytes": ("reserved KV over time", "GiB", 1 / GIB),
    "transfer_groups": ("groups per step over time", "groups", 1.0),
    "fragmentation_ratio": ("fragmentation over time", "%", 100.0),
}
"""Column -> title, unit and factor."""


def rows_over_time(path: Path, column: str, series: str) -> Sequence[SeriesRow]:
    """A column over the time of the first replication; none where the run lacks it.

    A period in which no step ran has no value (NaN).

    Args:
        path: steps.parquet.
        column: one of SECTIONS.
        series: the executor.
    """
    table = pd.read_parquet(path)
    if column not in table.columns:
        return ()
    if "replication" in table.columns:
        table = table[table["replication"] == 0]
    title, unit, factor = SECTIONS[column]
    values = table[column].to_numpy(dtype=np.float64)
    if column == "transfer_groups":
        values = values / table["num_steps"].to_numpy()
    start_s, end_s = (table[name].to_numpy() for name in ("start_s", "end_s"))
    length_s = (end_s.max() - start_s.min()) / NUM_PERIODS
    period = ((end_s - start_s.min()) / length_s).astype(np.int64).clip(0, NUM_PERIODS - 1)
    busy_s = np.bincount(period, end_s - start_s, NUM_PERIODS)
    sums = np.bincount(period, values * (end_s - start_s), NUM_PERIODS)
    rows = []
    for place in range(NUM_PERIODS):
        value = factor * float(sums[place] / busy_s[place]) if busy_s[place] else float("nan")
        rows.append(
            SeriesRow(
                setting=series,
                quantity=title,
                unit=unit,
                claim=None,
                simulated=Interval(value, value, value, 1),
                at=float(start_s.min() + (place + 0.5) * length_s),
                series=series,
            )
        )
    return rows
