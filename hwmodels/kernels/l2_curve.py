"""Share of reads that the L2 cache serves, against the bytes that are read over and over.

Fitted to bandwidths of cyclic scans over data sets of growing size. Not modelled: replacement
policy, sets and partitions of the cache; they appear only as the width of the knee.
"""

from dataclasses import dataclass, field

import numpy as np

from hwmodels.kernels.arrays import Numbers, as_times, sizes
from hwmodels.kernels.parameters import BYTES, RATE, WEIGHT, check_parameters
from sim.errors import ConfigError
from sim.interfaces import FloatArray

_LARGEST_EXPONENT = 700.0
"""exp(700) is still finite in float64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class L2Curve:
    """Hit curve of one GPU: `h = 1 / (1 + (data_set / midpoint)^(1 / log_width))`.

    Attributes:
        midpoint_bytes: data set of which half the reads hit.
        log_width: width of the knee in units of ln(bytes); small is sharp.
        l2_bytes_per_s: bandwidth of a data set that fits.
        hbm_bytes_per_s: bandwidth of a data set far larger than the cache.

    Raises:
        ConfigError: a constant is out of its bounds, or HBM is faster than L2.

    Source: form and constants fitted to bandwidth against data-set size in the RRZE gpu-benches
    result files (A100-80GB, H200, L40), errors 1.2 to 2.5 %.
    """

    midpoint_bytes: float = field(metadata=BYTES)
    log_width: float = field(metadata=WEIGHT)
    l2_bytes_per_s: float = field(metadata=RATE)
    hbm_bytes_per_s: float = field(metadata=RATE)

    def __post_init__(self) -> None:
        check_parameters(self)
        if self.log_width <= 0.0:
            raise ConfigError(f"L2Curve: log_width must be above 0, found {self.log_width}")
        if self.hbm_bytes_per_s > self.l2_bytes_per_s:
            raise ConfigError(
                f"L2Curve: hbm_bytes_per_s must be at most l2_bytes_per_s "
                f"({self.l2_bytes_per_s:g}), found {self.hbm_bytes_per_s:g}"
            )

    def hit_ratio(self, data_set_bytes: Numbers) -> FloatArray:
        """Share of the reads of a cyclic scan that hit, in [0, 1]; falls as the data set grows.

        Args:
            data_set_bytes: bytes scanned again and again, >= 0; any shape, kept in the result (a
                scalar gives a float).

        Raises:
            ConfigError: a size is negative or not a number.
        """
        data_set = sizes("data_set_bytes", data_set_bytes, 0.0)
        with np.errstate(divide="ignore"):
            exponent = np.log(data_set / self.midpoint_bytes) / self.log_width
        exponent = np.clip(exponent, -_LARGEST_EXPONENT, _LARGEST_EXPONENT)
        return as_times(1.0 / (1.0 + np.exp(exponent)))

    def bytes_per_s(self, data_set_bytes: Numbers) -> FloatArray:
        """Bandwidth of a cyclic scan, bytes/s: `1 / (h / L2 rate + (1 - h) / HBM rate)`.

        Args:
            data_set_bytes: bytes scanned again and again, >= 0; any shape, kept in the result (a
                scalar gives a float).

        Raises:
            ConfigError: a size is negative or not a number.
        """
        hit = self.hit_ratio(data_set_bytes)
        return as_times(1.0 / (hit / self.l2_bytes_per_s + (1.0 - hit) / self.hbm_bytes_per_s))
