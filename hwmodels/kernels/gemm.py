"""Time of one dense matrix product in bf16 on one GPU.

Not modelled: other element types, batched or grouped products, operands that are already in L2.
"""

from dataclasses import dataclass, field

import numpy as np

from hwmodels.kernels.arrays import Numbers, as_times, sizes, smooth_max
from hwmodels.kernels.parameters import COUNT, P_NORM, RATE, SECONDS, SHARE, check_parameters
from sim.errors import ConfigError
from sim.interfaces import FloatArray

_SPLITS = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
_SMALLEST_SPLIT_K = 64
_ELEMENT_BYTES = 2
_PARTIAL_BYTES = 8.0 / 3.0
"""HBM bytes per output element and split: of a float32 partial sum, written and read once, a third
leaves L2. Assumed; part of the form that was fitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """Output tile of one thread block.

    Attributes:
        m: rows.
        n: columns.
        efficiency: share of the model's compute rate that tiles of this size reach.
    """

    m: int = field(metadata=COUNT)
    n: int = field(metadata=COUNT)
    efficiency: float = field(metadata=SHARE)

    def __post_init__(self) -> None:
        check_parameters(self)
        if not self.efficiency:
            raise ConfigError("Tile: efficiency must be above 0, found 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmModel:
    """`C[m, n] = A[m, k] B[k, n]`: the fastest of all tiles and splits of k.

    Per tile and split s: thread blocks per processor `x = tiles * s / num_sms`, waves
    `w = max(1, weight * ceil(x) + (1 - weight) * x)`, compute `w` times (FLOPs of a tile over k/s
    at the rate of one processor, plus a prologue), memory `bytes / rate` slowed down where fewer
    than half the processors load (`x < 1/2`), plus the partial sums of a split. Both join in a
    p-norm; a split adds a reduction, and a launch comes on top. A split leaves at least 64 of k.
    Split-K is no monotone choice, and waves step: more rows can take less time by some percent.

    Source: fitted form; measured GEMM tables of A100-SXM4-80GB, H100-SXM and H200-SXM.

    Attributes:
        num_sms: processors.
        tiles: tile sizes that the library chooses from.
        wave_ceil_weight: how far waves are rounded up: 1 whole waves, 0 none.
        flops_per_s: compute rate at full waves.
        hbm_bytes_per_s: memory rate.
        launch_s: fixed time of the kernel.
        p_norm: exponent that joins compute and memory.
        split_k_s: fixed time of the reduction after a split.
        prologue_s: time per wave before a tile computes.
    """

    num_sms: int = field(metadata=COUNT)
    tiles: tuple[Tile, ...]
    wave_ceil_weight: float = field(metadata=SHARE)
    flops_per_s: float = field(metadata=RATE)
    hbm_bytes_per_s: float = field(metadata=RATE)
    launch_s: float = field(metadata=SECONDS)
    p_norm: float = field(metadata=P_NORM)
    split_k_s: float = field(metadata=SECONDS)
    prologue_s: float = field(metadata=SECONDS)

    def __post_init__(self) -> None:
        check_parameters(self)
        if not self.tiles:
            raise ConfigError("GemmModel: tiles must hold at least one tile")

    def time_s(self, m: Numbers, n: Numbers, k: Numbers) -> FloatArray:
        """Seconds of the product; arrays broadcast, scalars give a float.

        Raises:
            ConfigError: a size is below 1.
        """
        rows, columns, inner = np.broadcast_arrays(sizes("m", m), sizes("n", n), sizes("k", k))
        times_s = [self._tiled_s(tile, rows, columns, inner) for tile in self.tiles]
        return as_times(self.launch_s + np.minimum.reduce(times_s))

    def _tiled_s(self, tile: Tile, m: FloatArray, n: FloatArray, k: FloatArray) -> FloatArray:
        """Seconds with one tile size and its best split, the launch aside."""
        splits = _SPLITS.reshape(-1, *(1 for _ in m.shape))
        is_split = splits > 1
        split_k = np.ceil(k / splits)
        loads = np.ceil(m / tile.m) * np.ceil(n / tile.n) / self.num_sms * splits
        weight = self.wave_ceil_weight
        waves = np.maximum(1.0, weight * np.ceil(loads) + (1.0 - weight) * loads)
        sm_flops_per_s = self.flops_per_s / self.num_sms * tile.efficiency
        tile_s = split_k * (2 * tile.m * tile.n / sm_flops_per_s) + self.prologue_s
        moved_bytes = _ELEMENT_BYTES * (m * k + k * n + m * n)
        memory_s = moved_bytes / self.hbm_bytes_per_s / np.minimum(1.0, 2.0 * loads)
        partial_bytes = np.where(is_split, _PARTIAL_BYTES * splits, 0.0) * (m * n)
        memory_s = memory_s + partial_bytes / self.hbm_bytes_per_s
        times_s = smooth_max(waves * tile_s, memory_s, self.p_norm)
        times_s = times_s + np.where(is_split, self.split_k_s, 0.0)
        is_possible = ~is_split | (split_k >= _SMALLEST_SPLIT_K)
        best_s: FloatArray = np.min(np.where(is_possible, times_s, np.inf), axis=0)
        return best_s
