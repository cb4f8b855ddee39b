"""What a format of a few columns cannot say of a trace."""

from collections.abc import Sequence

from sim.errors import ConfigError
from sim.workload import IntArray
from traces.schema import TraceTable


def lost_columns(table: TraceTable) -> list[str]:
    """What a table says beyond times, lengths and sharing."""
    says = {
        "sessions": _has_any(table.session_id),
        "tenants": table.tenant is not None and _has_any(table.tenant.codes),
        "SLO classes": table.slo_class is not None and _has_any(table.slo_class.codes),
        "priorities": table.priority is not None and bool((table.priority != 0).any()),
        "which request another one waits for": _has_any(table.after),
        "the number of users": table.concurrency is not None,
    }
    return [what for what, is_said in says.items() if is_said]


def _has_any(column: IntArray | None) -> bool:
    """Whether any row has a value; -1 is none."""
    return column is not None and bool((column >= 0).any())


def refuse_losses(losses: Sequence[str], target: str, is_lossy: bool) -> None:
    """Refuse to write what would be lost.

    Raises:
        ConfigError: something would be, and `is_lossy` is false.
    """
    if losses and not is_lossy:
        raise ConfigError(
            f"--to {target}: would lose {'; '.join(losses)}; add --lossy, or write parquet"
        )
