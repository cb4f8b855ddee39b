"""Decode attention that reads every node of the prefix tree once for all its requests.

The partial results of a request, one per node, are merged afterwards. Not modelled: how nodes are
packed into thread blocks.
"""

from dataclasses import dataclass, field

from hwmodels.kernels.arrays import Numbers, as_times, sizes, smooth_max
from hwmodels.kernels.parameters import P_NORM, RATE, SECONDS, check_parameters
from sim.interfaces import FloatArray

_PARTIAL_BYTES = 8
"""Bytes moved per element of a partial result: a 4-byte float written and read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedModel:
    """`launch + pnorm(unique bytes / HBM rate, FLOPs / rate) + merged bytes / merge rate`.

    Source: fitted form; ratios of times on prefix trees, PAT artifact (flashserve/PAT) on an A100.
    Only ratios were measured, so that the HBM rate fixes the scale of all other constants.

    Attributes:
        launch_s: fixed time of the kernels.
        hbm_bytes_per_s: memory rate.
        flops_per_s: compute rate.
        p_norm: exponent that joins both bounds.
        merge_bytes_per_s: rate at which partial results are merged.
    """

    launch_s: float = field(metadata=SECONDS)
    hbm_bytes_per_s: float = field(metadata=RATE)
    flops_per_s: float = field(metadata=RATE)
    p_norm: float = field(metadata=P_NORM)
    merge_bytes_per_s: float = field(metadata=RATE)

    def __post_init__(self) -> None:
        check_parameters(self)

    def time_s(
        self,
        context_tokens_sum: Numbers,
        unique_bytes: Numbers,
        num_partials: Numbers,
        num_heads: int,
        head_dim: int = 128,
    ) -> FloatArray:
        """Seconds of one layer; arrays broadcast, scalars give a float.

        Args:
            context_tokens_sum: sum of the contexts of all requests.
            unique_bytes: keys and values of all nodes, each counted once.
            num_partials: partial results to merge, pairs of a request and a node that it reads.
            num_heads: query heads on this GPU.
            head_dim: width of a head.

        Raises:
            ConfigError: a size is negative.
        """
        total = sizes("context_tokens_sum", context_tokens_sum, 0.0)
        memory_s = sizes("unique_bytes", unique_bytes, 0.0) / self.hbm_bytes_per_s
        compute_s = total * (4.0 * head_dim * num_heads) / self.flops_per_s
        read_s = smooth_max(memory_s, compute_s, self.p_norm)
        return as_times(self.launch_s + read_s + self.merge_s(num_partials, num_heads, head_dim))

    def merge_s(self, num_partials: Numbers, num_heads: int, head_dim: int = 128) -> FloatArray:
        """Seconds to merge partial results of all heads, the launch not included."""
        partials = sizes("num_partials", num_partials, 0.0)
        merged_bytes = partials * (num_heads * head_dim * _PARTIAL_BYTES)
        return as_times(merged_bytes / self.merge_bytes_per_s)
