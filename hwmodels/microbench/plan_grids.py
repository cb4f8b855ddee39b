"""Points of the plans, as data: what is measured first, and then in more detail."""

from collections.abc import Mapping
from dataclasses import dataclass

from hwmodels.microbench.case import Value

_MIB = 1 << 20
_GQA: tuple[tuple[Value, ...], ...] = ((32, 8),)
_MHA: tuple[tuple[Value, ...], ...] = ((32, 32),)
_SHARD: tuple[tuple[Value, ...], ...] = ((8, 1),)
_HEADS = "num_heads num_kv_heads"
_WEIGHTS = "n k"


@dataclass(frozen=True, slots=True)
class Grid:
    """All combinations of some values.

    Attributes:
        case: the benchmark.
        axes: values by parameter; a key of several names separated by spaces takes tuples.
    """

    case: str
    axes: Mapping[str, tuple[Value | tuple[Value, ...], ...]]


@dataclass(frozen=True, slots=True)
class Stage:
    """Grids of equal rank; a budget that ends inside takes a random part of them.

    Attributes:
        name: as it is printed.
        grids: what is measured.
    """

    name: str
    grids: tuple[Grid, ...]


def _read(*sizes_mib: int) -> Grid:
    return Grid("stream", {"op": ("read",), "data_set_bytes": tuple(s * _MIB for s in sizes_mib)})


A100_L2 = Stage(
    "L2 curve",
    (_read(4, 8, 16, 20, 24, 27, 30, 33, 36, 38, 40, 43, 46, 50, 56, 64, 80, 128, 512, 2048),),
)
"""Dense around the midpoint of 38 MiB that COST_MODELS 3 states."""
HOPPER_L2 = Stage(
    "L2 curve",
    (_read(4, 8, 16, 24, 32, 36, 40, 44, 47, 50, 53, 56, 60, 64, 70, 80, 100, 160, 512, 2048),),
)
"""Dense around the midpoint of 54 MiB, and below for parts whose cache is smaller."""
GENERIC_L2 = Stage(
    "L2 curve",
    (
        _read(
            1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40, 48, 56, 64, 72, 84, 96, 112, 128, 192, 256, 1024
        ),
    ),
)
"""Even in the logarithm: the midpoint is not known."""

SHARED_PREFIX = Stage(
    "shared prefixes",
    (
        Grid(
            "shared_prefix",
            {
                _HEADS: _GQA,
                "groups": (1, 2, 4, 8, 16, 32),
                "members": (4, 16, 64),
                "prefix_tokens": (512, 2048, 8192),
                "suffix_tokens": (128,),
                "member_order": ("contiguous", "interleaved"),
                "cache": ("cold",),
            },
        ),
    ),
)
GEMM = Stage(
    "matrix products",
    (
        Grid(
            "gemm",
            {
                "impl": ("library",),
                "m": (1, 16, 64, 256, 1024, 4096),
                _WEIGHTS: ((6144, 4096), (28672, 4096), (4096, 14336), (8192, 8192)),
            },
        ),
        # The logits of a vocabulary of 128 thousand.
        Grid("gemm", {"impl": ("library",), "m": (1, 64, 256), _WEIGHTS: ((128256, 4096),)}),
        Grid("gemm", {"impl": ("triton",), "m": (16, 256, 4096), _WEIGHTS: ((4096, 4096),)}),
    ),
)
DECODE = Stage(
    "decode attention",
    (
        Grid(
            "decode_attention",
            {
                _HEADS: (*_GQA, *_MHA),
                "batch": (1, 8, 64, 256),
                "context": (512, 2048, 8192),
                "splits": (1,),
            },
        ),
        Grid(
            "decode_attention",
            {_HEADS: _GQA, "batch": (1, 8), "context": (2048, 16384), "splits": (4, 16)},
        ),
    ),
)
MIXED = Stage(
    "mixed batches",
    (
        Grid(
            "mixed",
            {
                _HEADS: _GQA,
                "batch": (16, 128),
                "context": (2048,),
                "chunk_tokens": (16, 256, 2048),
                "prefix_tokens": (0, 4096),
                "form": ("fused", "separate"),
            },
        ),
    ),
)
PREFILL = Stage(
    "prefill attention",
    (
        Grid(
            "prefill",
            {
                _HEADS: _GQA,
                "chunk_tokens": (128, 512, 2048),
                "prefix_tokens": (0, 2048, 16384),
                "batch": (1,),
            },
        ),
    ),
)
TREES = Stage(
    "cascade and packed",
    (
        Grid(
            "cascade",
            {
                _HEADS: _GQA,
                "batch": (16, 64, 256),
                "prefix_tokens": (1024, 8192),
                "suffix_tokens": (128,),
            },
        ),
        Grid(
            "packed",
            {
                _HEADS: _GQA,
                "groups": (1, 4, 16),
                "members": (8, 32),
                "prefix_tokens": (1024, 8192),
                "suffix_tokens": (128,),
            },
        ),
    ),
)
HOST = Stage(
    "launches and copies",
    (
        Grid("launch", {"kind": ("launch", "graph_replay"), "num_kernels": (1, 16, 256)}),
        Grid(
            "copy",
            {
                "direction": ("h2d", "d2h"),
                "num_bytes": (4096, 262144, 16 * _MIB, 256 * _MIB),
                "pinned": (True, False),
            },
        ),
    ),
)
PEERS = Stage(
    "several GPUs",
    (
        Grid(
            "copy",
            {
                "direction": ("p2p",),
                "num_bytes": (4096, 262144, 16 * _MIB, 256 * _MIB),
                "pinned": (True,),
            },
        ),
        Grid(
            "all_reduce",
            {
                "num_gpus": (2, 4, 8),
                "num_bytes": (8192, 65536, 524288, 4 * _MIB, 32 * _MIB, 256 * _MIB),
            },
        ),
    ),
)
MORE_SHARED_PREFIX = Stage(
    "shared prefixes, more",
    (
        Grid(
            "shared_prefix",
            {
                _HEADS: _GQA,
                "groups": (2, 8, 32),
                "members": (8, 32),
                "prefix_tokens": (1024, 4096, 16384),
                "suffix_tokens": (128,),
                "member_order": ("contiguous", "interleaved"),
                "cache": ("cold",),
            },
        ),
        Grid(
            "shared_prefix",
            {
                _HEADS: _GQA,
                "groups": (1, 4, 16),
                "members": (4, 16, 64),
                "prefix_tokens": (512, 2048),
                "suffix_tokens": (128,),
                "member_order": ("contiguous", "interleaved"),
                "cache": ("warm",),
            },
        ),
        Grid(
            "shared_prefix",
            {
                _HEADS: (*_MHA, *_SHARD),
                "groups": (1, 4, 16),
                "members": (4, 16, 64),
                "prefix_tokens": (512, 2048),
                "suffix_tokens": (128,),
                "member_order": ("contiguous", "interleaved"),
                "cache": ("cold",),
            },
        ),
        Grid(
            "shared_prefix",
            {
                _HEADS: _GQA,
                "groups": (1, 4, 16),
                "members": (16,),
                "prefix_tokens": (2048,),
                "suffix_tokens": (1024,),
                "member_order": ("contiguous", "interleaved"),
                "cache": ("warm", "cold"),
            },
        ),
    ),
)
MORE_GEMM = Stage(
    "matrix products, more",
    (
        Grid(
            "gemm",
            {
                "impl": ("library",),
                "m": (8, 32, 128, 512, 2048, 8192),
                _WEIGHTS: (
                    (1024, 4096),
                    (4096, 4096),
                    (6144, 4096),
                    (28672, 4096),
                    (4096, 14336),
                    (10240, 8192),
                ),
            },
        ),
        Grid(
            "gemm",
            {
                "impl": ("triton",),
                "m": (1, 16, 64, 256, 1024, 4096),
                _WEIGHTS: ((6144, 4096), (4096, 14336)),
            },
        ),
    ),
)
MORE_ATTENTION = Stage(
    "attention, more",
    (
        Grid(
            "decode_attention",
            {
                _HEADS: _GQA,
                "batch": (16, 64, 256),
                "context": (1024,),
                "lengths": ("one_long", "spread"),
                "ratio": (4, 16),
            },
        ),
        Grid(
            "decode_attention",
            {
                _HEADS: (*_GQA, *_MHA, *_SHARD),
                "batch": (2, 4, 16, 32, 128),
                "context": (256, 1024, 4096),
            },
        ),
        Grid(
            "decode_attention",
            {_HEADS: _GQA, "batch": (2, 4, 16), "context": (4096, 32768), "splits": (2, 8, 32)},
        ),
        Grid(
            "prefill",
            {
                _HEADS: (*_GQA, *_MHA),
                "chunk_tokens": (64, 256, 1024, 4096),
                "prefix_tokens": (0, 1024, 8192),
                "batch": (1, 4),
            },
        ),
        Grid(
            "mixed",
            {
                _HEADS: _GQA,
                "batch": (8, 64, 256),
                "context": (512, 4096),
                "chunk_tokens": (64, 512),
                "prefix_tokens": (0, 1024),
                "form": ("fused", "separate"),
            },
        ),
        Grid(
            "cascade",
            {
                _HEADS: (*_GQA, *_MHA),
                "batch": (8, 32, 128),
                "prefix_tokens": (512, 2048, 16384),
                "suffix_tokens": (128, 1024),
            },
        ),
        Grid(
            "packed",
            {
                _HEADS: (*_GQA, *_MHA),
                "groups": (2, 8),
                "members": (4, 16, 64),
                "prefix_tokens": (512, 2048),
                "suffix_tokens": (128, 1024),
            },
        ),
    ),
)
MORE_MEMORY = Stage(
    "memory and host, more",
    (
        Grid(
            "stream",
            {
                "op": ("triad",),
                "data_set_bytes": tuple(s * 3 * _MIB for s in (2, 8, 12, 16, 24, 64, 512)),
            },
        ),
        Grid("launch", {"kind": ("launch", "graph_replay"), "num_kernels": (4, 64, 1024)}),
        Grid(
            "copy",
            {
                "direction": ("h2d", "d2h"),
                "num_bytes": (65536, _MIB, 4 * _MIB, 64 * _MIB),
                "pinned": (True,),
            },
        ),
    ),
)

AFTER_L2 = (
    SHARED_PREFIX,
    GEMM,
    DECODE,
    MIXED,
    TREES,
    PREFILL,
    HOST,
    PEERS,
    MORE_SHARED_PREFIX,
    MORE_ATTENTION,
    MORE_GEMM,
    MORE_MEMORY,
)
"""Order of all stages after the first."""
