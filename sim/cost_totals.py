"""Sums of cost terms over the steps of an instance: where the time and the bytes went."""

from dataclasses import dataclass, fields


@dataclass(slots=True)
class CostTotals:
    """Totals over executed steps; seconds, bytes and FLOPs of one GPU of the instance.

    `hbm_bytes` and `flops` are exact integers, so that they do not depend on how steps are grouped.
    `l2_hit_bytes` and `l2_read_bytes` stay 0 with a cost model that has no L2.
    """

    gemm_s: float = 0.0
    attention_decode_s: float = 0.0
    attention_prefill_s: float = 0.0
    collective_s: float = 0.0
    small_ops_s: float = 0.0
    launch_s: float = 0.0
    scheduler_s: float = 0.0
    transfer_s: float = 0.0
    hbm_bytes: int = 0
    flops: int = 0
    l2_read_bytes: int = 0
    l2_hit_bytes: int = 0

    def add(self, other: "CostTotals") -> None:
        """Add another set of totals to this one."""
        for item in fields(self):
            setattr(self, item.name, getattr(self, item.name) + getattr(other, item.name))


COST_COLUMNS = tuple(item.name for item in fields(CostTotals))
"""Names of the cost terms, in order."""
