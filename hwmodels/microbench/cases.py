"""All benchmarks by name, and a case read back from its parameters."""

from collections.abc import Mapping
from dataclasses import MISSING, fields

from hwmodels.microbench.attention_cases import (
    AttentionCase,
    CascadeCase,
    DecodeAttentionCase,
    MixedCase,
    PackedCase,
    PrefillCase,
    SharedPrefixCase,
)
from hwmodels.microbench.case import ELEMENT_BYTES, HEAD_DIM, PAGE_TOKENS, Case, Value
from hwmodels.microbench.errors import CaseError
from hwmodels.microbench.machine_cases import (
    AllReduceCase,
    CopyCase,
    GemmCase,
    LaunchCase,
    StreamCase,
)

__all__ = [
    "CASES",
    "ELEMENT_BYTES",
    "HEAD_DIM",
    "PAGE_TOKENS",
    "AllReduceCase",
    "AttentionCase",
    "CascadeCase",
    "Case",
    "CopyCase",
    "DecodeAttentionCase",
    "GemmCase",
    "LaunchCase",
    "MixedCase",
    "PackedCase",
    "PrefillCase",
    "SharedPrefixCase",
    "StreamCase",
    "Value",
    "case_of",
]

CASES: dict[str, type[Case]] = {
    kind.name: kind
    for kind in (
        StreamCase,
        GemmCase,
        DecodeAttentionCase,
        SharedPrefixCase,
        CascadeCase,
        PackedCase,
        PrefillCase,
        MixedCase,
        LaunchCase,
        CopyCase,
        AllReduceCase,
    )
}
"""Benchmarks by their names in rows."""


def case_of(name: str, params: Mapping[str, object]) -> Case:
    """The case of a row.

    Raises:
        CaseError: no benchmark of that name, or its parameters are missing, unknown or wrong.
    """
    kind = CASES.get(name)
    if kind is None:
        raise CaseError(f"unknown case {name!r}; allowed: {', '.join(CASES)}")
    known = {item.name: item.default is MISSING for item in fields(kind)}
    unknown = sorted(key for key in params if key not in known)
    missing = sorted(key for key, is_required in known.items() if is_required and key not in params)
    if unknown or missing:
        parts = [f"unknown parameter {', '.join(unknown)}"] if unknown else []
        parts += [f"missing parameter {', '.join(missing)}"] if missing else []
        raise CaseError(f"{name}: {'; '.join(parts)}; allowed: {', '.join(sorted(known))}")
    return kind(**params)
