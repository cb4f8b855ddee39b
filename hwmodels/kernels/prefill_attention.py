"""Time of causal attention of prefill chunks, one layer on one GPU.

Not modelled: chunks of unequal lengths in one call, or decodes in the same call.
"""

from dataclasses import dataclass, field

import numpy as np

from hwmodels.kernels.arrays import Numbers, as_times, sizes
from hwmodels.kernels.parameters import COUNT, RATE, SECONDS, WEIGHT, check_parameters
from sim.interfaces import FloatArray

_TILE_TOKENS = 64
"""Query tokens of a tile."""
_ELEMENT_BYTES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillAttentionModel:
    """`launch + tiled FLOPs / rate + tail + bytes / io rate`.

    FLOPs count whole tiles of 64 query tokens, each over the prefix and all tiles up to its own.
    The tail is `tail_weight` times the time that one tile over the whole context takes on one
    processor: what the last tiles run over the rest.

    Source: fitted form; context attention tables of A100-SXM4-80GB, H100-SXM and H200-SXM.

    Attributes:
        num_sms: processors.
        launch_s: fixed time of the kernel.
        flops_per_s: compute rate.
        tail_weight: length of the tail in tiles.
        io_bytes_per_s: rate of queries, outputs, keys and values.
    """

    num_sms: int = field(metadata=COUNT)
    launch_s: float = field(metadata=SECONDS)
    flops_per_s: float = field(metadata=RATE)
    tail_weight: float = field(metadata=WEIGHT)
    io_bytes_per_s: float = field(metadata=RATE)

    def __post_init__(self) -> None:
        check_parameters(self)

    def time_s(
        self,
        batch_size: Numbers,
        chunk_tokens: Numbers,
        prefix_tokens: Numbers,
        num_heads: Numbers,
        num_kv_heads: Numbers,
        head_dim: Numbers = 128,
    ) -> FloatArray:
        """Seconds of one layer; arrays broadcast, scalars give a float.

        Args:
            batch_size: sequences, all of the same chunk and prefix.
            chunk_tokens: new tokens of each.
            prefix_tokens: context tokens before the chunk, 0 or more.
            num_heads: query heads on this GPU.
            num_kv_heads: KV heads on this GPU.
            head_dim: width of a head.

        Raises:
            ConfigError: a size is below 1, or the prefix below 0.
        """
        batch, chunk = sizes("batch_size", batch_size), sizes("chunk_tokens", chunk_tokens)
        prefix = sizes("prefix_tokens", prefix_tokens, 0.0)
        heads, kv_heads = sizes("num_heads", num_heads), sizes("num_kv_heads", num_kv_heads)
        width = sizes("head_dim", head_dim)
        tiles = np.ceil(chunk / _TILE_TOKENS)
        pairs = _TILE_TOKENS * (tiles * prefix + _TILE_TOKENS * tiles * (tiles + 1.0) / 2.0)
        flops = 4.0 * width * heads * batch * pairs
        last_tile_flops = 4.0 * width * _TILE_TOKENS * (prefix + chunk)
        tail_s = self.tail_weight * self.num_sms * last_tile_flops / self.flops_per_s
        elements = 2.0 * heads * chunk + 2.0 * kv_heads * (chunk + prefix)
        io_s = batch * _ELEMENT_BYTES * width * elements / self.io_bytes_per_s
        return as_times(self.launch_s + flops / self.flops_per_s + tail_s + io_s)
