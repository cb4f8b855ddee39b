"""Measured read rates against the size of the data set: the L2 cache and the memory behind it."""

from pathlib import Path

from hwmodels.measurements.rows import MeasuredRows, left_out, median_of_repeats
from hwmodels.measurements.tables import read_table, rows_of
from sim.errors import ConfigError

SOURCE = "GPU L2 cache benchmark results of RRZE-HPC/gpu-benches (numbers restated)"

SMALLEST_BYTES = 6 * 2**20
"""Below this the first-level caches of the SMs hold part of the data set."""

_BYTES_PER_KIB = 1024
_BYTES_PER_GB = 1e9


def load_l2_bandwidth(path: Path, gpu: str) -> MeasuredRows:
    """Rows of one GPU: `data_set_bytes`; the time is that of reading the data set once.

    Args:
        path: table with `gpu`, `data_set_kib`, `effective_gb_per_s`.
        gpu: name in the table.

    Raises:
        ConfigError: the file is missing, not such a table, or does not know the GPU.
    """
    frame = read_table(path, ("gpu", "data_set_kib", "effective_gb_per_s"))
    known = sorted(str(name) for name in frame["gpu"].unique())
    if gpu not in known:
        raise ConfigError(f"{path}: no curve of {gpu!r}; it has {', '.join(known)}")
    kept = frame[frame["gpu"] == gpu]
    num_bytes = kept["data_set_kib"] * _BYTES_PER_KIB
    kept = kept.assign(
        data_set_bytes=num_bytes,
        time_s=num_bytes / (kept["effective_gb_per_s"] * _BYTES_PER_GB),
    )
    others = left_out(len(frame) - len(kept), "other GPUs")
    names = {"data_set_bytes": "data_set_bytes"}
    rows = rows_of(kept, path, names, "time_s", SOURCE, others, s_per_unit=1.0)
    is_l2 = rows.columns["data_set_bytes"] >= SMALLEST_BYTES
    return median_of_repeats(rows.where(is_l2, "data set that the SMs' own caches hold in part"))
