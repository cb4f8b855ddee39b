"""Every kernel in every mode, ragged where that is allowed, as small as the interpreter needs."""

from typing import TypedDict

from hwmodels.microbench.cases import (
    CascadeCase,
    Case,
    CopyCase,
    DecodeAttentionCase,
    GemmCase,
    LaunchCase,
    MixedCase,
    PackedCase,
    PrefillCase,
    SharedPrefixCase,
    StreamCase,
)


class Heads(TypedDict):
    """Heads of a case."""

    num_heads: int
    num_kv_heads: int


def attention_cases(num_heads: int, num_kv_heads: int) -> list[Case]:
    """Cases of all attention kernels."""
    heads: Heads = {"num_heads": num_heads, "num_kv_heads": num_kv_heads}
    trees: dict[str, int] = {
        "num_heads": num_heads,
        "num_kv_heads": num_kv_heads,
        "groups": 2,
        "members": 3,
        "suffix_tokens": 33,
    }
    mixed: dict[str, int] = {
        "num_heads": num_heads,
        "num_kv_heads": num_kv_heads,
        "batch": 3,
        "context": 70,
        "chunk_tokens": 40,
        "prefix_tokens": 33,
    }
    return [
        DecodeAttentionCase(**heads, batch=3, context=70),
        DecodeAttentionCase(**heads, batch=3, context=70, lengths="spread", ratio=3),
        # The first split of the short contexts holds all of them: the other three are empty.
        DecodeAttentionCase(**heads, batch=3, context=60, splits=4, lengths="one_long", ratio=5),
        SharedPrefixCase(**trees, prefix_tokens=80, member_order="interleaved", cache="cold"),
        SharedPrefixCase(**trees, prefix_tokens=80, member_order="contiguous", cache="warm"),
        CascadeCase(**heads, batch=5, prefix_tokens=100, suffix_tokens=33),
        PackedCase(**trees, prefix_tokens=90),
        PackedCase(**trees, prefix_tokens=530),
        PrefillCase(**heads, chunk_tokens=70, prefix_tokens=90, batch=2),
        PrefillCase(**heads, chunk_tokens=5, prefix_tokens=0),
        MixedCase(**mixed, form="fused"),
        MixedCase(**mixed, form="separate"),
    ]


MACHINE_CASES: list[Case] = [
    StreamCase(op="read", data_set_bytes=100_000),
    StreamCase(op="triad", data_set_bytes=200_000),
    GemmCase(m=1, n=64, k=128, impl="triton"),
    GemmCase(m=17, n=72, k=160, impl="triton"),
    GemmCase(m=130, n=136, k=96, impl="triton"),
    GemmCase(m=17, n=72, k=160, impl="library"),
    LaunchCase(kind="launch", num_kernels=3),
    CopyCase(direction="h2d", num_bytes=1000, pinned=False),
    CopyCase(direction="d2h", num_bytes=1000, pinned=True),
]
"""Cases of everything else."""

HIGH_TILES: list[Case] = [
    # More rows than one tile, in nodes and in sequences; tiles of 128 queries.
    PackedCase(
        num_heads=4, num_kv_heads=1, groups=1, members=18, prefix_tokens=40, suffix_tokens=9
    ),
    CascadeCase(num_heads=2, num_kv_heads=1, batch=66, prefix_tokens=40, suffix_tokens=9),
    MixedCase(
        num_heads=2,
        num_kv_heads=1,
        batch=2,
        context=30,
        chunk_tokens=131,
        prefix_tokens=0,
        form="fused",
    ),
]
"""Cases whose queries fill more than one tile."""

ALL_CASES: list[Case] = [
    *MACHINE_CASES,
    *attention_cases(num_heads=4, num_kv_heads=2),
    *attention_cases(num_heads=2, num_kv_heads=2)[:3],
    *HIGH_TILES,
]
"""All of them."""
