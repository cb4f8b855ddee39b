"""What is claimed of the CPU time of finding shared prefixes, beside what came out."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

from experiments.stats.intervals import Interval, mean_interval
from experiments.studies.feather.cpu_cells import (
    COMPILED,
    CROWD,
    FREE,
    LARGE,
    PYTHON,
    SMALL,
    USERS,
    CpuCell,
)
from experiments.studies.feather.found import Found
from experiments.studies.feather.measures import CPU_REQUEST, CPU_SHARE, OUTPUT
from experiments.studies.feather.rows import claim_row
from experiments.studies.feather.variants import DFS_WEIGHT, FEATHER, HASH_TREE, LPM
from experiments.studies.findings import Row

Table = Mapping[CpuCell, Found]
"""What the jobs measured."""


def slowdowns(table: Table, cell: CpuCell) -> list[float]:
    """Output of a priced job over that of the same one with free CPU time, seed by seed."""
    free = table[replace(cell, language=FREE)]
    pairs = zip(table[cell].samples(OUTPUT), free.samples(OUTPUT), strict=True)
    return [priced / without for priced, without in pairs]


def claims(table: Table) -> list[Row]:
    """The paper's claims about CPU time, and those of a summary."""
    rows: list[Row] = []
    for language in (PYTHON, COMPILED):
        rows += [
            _share_row(table, CpuCell(served, 20_000, variant, language), (50.0, inf), "[paper]")
            for served in (SMALL, LARGE)
            for variant in (LPM, DFS_WEIGHT)
        ]
    rows += [
        _share_row(table, CpuCell(SMALL, 20_000, *how), (1000.0, inf), "[note]", 0.25)
        for how in ((LPM,), (DFS_WEIGHT,), (DFS_WEIGHT, PYTHON, CROWD))
    ]
    rows += [
        _share_row(table, CpuCell(served, prefix, FEATHER, language), (0.0, 1.0), "[note]")
        for language in (PYTHON, COMPILED)
        for served, prefix in ((LARGE, 5000), (LARGE, 20_000), (SMALL, 20_000))
    ]
    rows += [
        claim_row(
            _setting(CpuCell(LARGE, 20_000, variant, PYTHON, users)),
            f"{CPU_REQUEST.title}: {variant.label}/{HASH_TREE.label}",
            (1000.0, 1000.0),
            table[CpuCell(LARGE, 20_000, variant, PYTHON, users)].ratio(
                table[CpuCell(LARGE, 20_000, HASH_TREE, PYTHON, users)], CPU_REQUEST
            ),
            "[note]",
        )
        for variant, users in ((LPM, USERS), (DFS_WEIGHT, USERS), (DFS_WEIGHT, CROWD))
    ]
    rows.append(
        claim_row(
            "5,000 tokens, Python",
            f"{CPU_REQUEST.title}, lpm: 8B/0.5B",
            (1.0, 1.0),
            table[CpuCell(LARGE, 5000, LPM)].ratio(table[CpuCell(SMALL, 5000, LPM)], CPU_REQUEST),
            "[paper]",
        )
    )
    rows += [
        claim_row(
            "20,000 tokens, Python",
            f"output priced/free, {variant.label}: 0.5B/8B",
            (0.0, 1.0),
            _ratio(*(slowdowns(table, CpuCell(one, 20_000, variant)) for one in (SMALL, LARGE))),
            "[paper]",
            limit_ratio=0,
        )
        for variant in (LPM, DFS_WEIGHT)
    ]
    return rows


def _share_row(
    table: Table, cell: CpuCell, claim: tuple[float, float], source: str, limit_ratio: float = 0.0
) -> Row:
    return claim_row(
        *(_setting(cell), f"{cell.variant.label}: CPU/GPU time", claim),
        *(table[cell].interval(CPU_SHARE), source),
        limit_ratio=limit_ratio,
        unit="%",
    )


def _setting(cell: CpuCell) -> str:
    waiting = ", 1,000 waiting" if cell.users == CROWD else ""
    return f"{cell.served.label}, {cell.prefix_tokens:,} tokens, {cell.language}{waiting}"


def _ratio(mine: Sequence[float], yours: Sequence[float]) -> Interval:
    return mean_interval([a / b for a, b in zip(mine, yours, strict=True)])
