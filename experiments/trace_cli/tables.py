"""Facts of traces on the terminal."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from experiments.quantities import ABSENT, count, digits, duration, percent
from traces.analysis.facts import TraceFacts
from traces.analysis.spread import Spread

if TYPE_CHECKING:
    from rich.table import Table

Row = tuple[str, Callable[[TraceFacts], str]]
Pick = Callable[[TraceFacts], Spread | None]


def title_lines(
    place: str, provenance: Mapping[str, Any], facts: TraceFacts, is_guessed: bool = False
) -> list[str]:
    """What the trace is, before its figures.

    Args:
        place: the file.
        provenance: of the trace.
        facts: of the trace.
        is_guessed: whether the format was told from the content.
    """
    digest = provenance.get("sha256")
    how = " (guessed)" if is_guessed else ""
    lines = [f"{place}: {provenance.get('format', 'trace')}{how}, {size_of(facts)}"]
    if digest:
        lines.append(f"  sha256 {digest}")
    skipped: Mapping[str, int] = provenance.get("skipped") or {}
    if skipped:
        numbers = ", ".join(f"{number:,} ({reason})" for reason, number in skipped.items())
        lines.append(f"  rows left out: {numbers}")
    transforms: Mapping[str, Any] = provenance.get("transforms") or {}
    if transforms:
        lines.append(f"  transforms: {', '.join(map(_transform, transforms.items()))}")
    if facts.concurrency is not None:
        users = f"{facts.concurrency:,} users send the requests, each after its last one has ended"
        lines.append(f"  closed loop: {users}; times are nominal")
    elif facts.is_closed_loop:
        lines.append("  closed loop: some requests wait for others to end; their times are nominal")
    return lines


def _transform(item: tuple[str, Any]) -> str:
    name, value = item
    if isinstance(value, Mapping):
        return f"{name} ({', '.join(map(_transform, value.items()))})"
    return f"{name} {str(value).lower() if isinstance(value, bool) else value}"


def size_of(facts: TraceFacts) -> str:
    """Requests, time and tokens in one line."""
    return (
        f"{_requests(facts.num_requests)} over {duration(facts.span_s)}, "
        f"{facts.total_prompt_tokens:,} prompt and {facts.total_output_tokens:,} output tokens"
    )


def _requests(number: int) -> str:
    return "1 request" if number == 1 else f"{number:,} requests"


def facts_table(facts: Sequence[TraceFacts], names: Sequence[str]) -> "Table":
    """One row per figure, one column per trace.

    Args:
        facts: of each trace.
        names: of each trace; empty without a header.
    """
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), show_header=bool(names))
    table.add_column("")
    for k in range(len(facts)):
        table.add_column(names[k] if names else "", justify="right" if names else "left")
    for label, show in _rows(facts, is_narrow=len(facts) > 1):
        table.add_row(label, *map(show, facts))
    return table


def prefix_table(facts: TraceFacts) -> "Table | None":
    """The shared beginnings that could save most, or None without any."""
    from rich.table import Table

    if not facts.top_prefixes:
        return None
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("top shared prefixes")
    for name in ("tokens", "prompts", "tokens saved", "of all prompts"):
        table.add_column(name, justify="right")
    for prefix in facts.top_prefixes:
        end = prefix.start_tokens + prefix.num_tokens
        table.add_row(
            f"tokens {prefix.start_tokens:,} to {end:,} of request {prefix.first_request:,}",
            count(prefix.num_tokens),
            count(prefix.num_requests),
            count(prefix.saved_tokens),
            percent(prefix.saved_tokens / facts.total_prompt_tokens),
        )
    return table


def _rows(facts: Sequence[TraceFacts], is_narrow: bool) -> list[Row]:
    rows: list[Row] = [
        ("requests", lambda f: count(f.num_requests)),
        ("first to last arrival", lambda f: duration(f.span_s)),
        ("mean rate", lambda f: _rate(f.burstiness.mean_rate_per_s)),
        ("CV of gaps", lambda f: digits(f.burstiness.inter_arrival_cv)),
    ]
    windows = sorted({window for f in facts for window in f.burstiness.fano})
    rows += [(f"Fano factor, {window:g} s", _fano(window)) for window in windows]
    rows += _spread_rows("prompt tokens", lambda f: f.prompt_tokens, is_narrow)
    rows += _spread_rows("output tokens", lambda f: f.output_tokens, is_narrow)
    rows.append(("prompts that share", lambda f: percent(f.sharing_ratio)))
    if any(f.sharing_ratio for f in facts):
        rows += _spread_rows("shared tokens", lambda f: f.shared_tokens, is_narrow)
        rows += _spread_rows("shared nodes on the path", lambda f: f.path_nodes, is_narrow)
        rows += [
            ("reuse, unlimited cache", lambda f: percent(f.reuse_ratio)),
            ("  in whole KV blocks", _block_reuse),
            ("  half of it with", lambda f: _cache_for(f, 0.5)),
            ("  nine tenths with", lambda f: _cache_for(f, 0.9)),
        ]
    if any(f.sessions for f in facts):
        rows.append(("sessions", lambda f: count(f.sessions.num_sessions if f.sessions else None)))
        rows += _spread_rows("turns", _of_sessions("turns"), is_narrow)
        rows += _spread_rows("gap between turns", _of_sessions("gap_s"), is_narrow, duration)
    if any(f.sessions and f.sessions.delay_s for f in facts):
        rows += _spread_rows("delay after an end", _of_sessions("delay_s"), is_narrow, duration)
    for label, name in (("tenants", "tenants"), ("SLO classes", "slo_classes")):
        if any(getattr(f, name) for f in facts):
            rows.append((label, _names(name)))
    return rows


def _of_sessions(name: str) -> Pick:
    def pick(facts: TraceFacts) -> Spread | None:
        found: Spread | None = getattr(facts.sessions, name, None)
        return found

    return pick


def _spread_rows(
    label: str,
    pick: Pick,
    is_narrow: bool,
    show: Callable[[float], str] | None = None,
) -> list[Row]:
    """One row, or one for each of the figures where columns are narrow."""
    show = show or digits_or_count
    if is_narrow:
        return [(f"{label}, {name}", _one(pick, name, show)) for name in ("mean", "p50", "p99")]

    def all_of(facts: TraceFacts) -> str:
        spread = pick(facts)
        if spread is None:
            return ABSENT
        names = ("mean", "p50", "p90", "p99", "max")
        return ", ".join(f"{name} {show(getattr(spread, name))}" for name in names)

    return [(label, all_of)]


def _one(pick: Pick, name: str, show: Callable[[float], str]) -> Callable[[TraceFacts], str]:
    def one(facts: TraceFacts) -> str:
        spread = pick(facts)
        return ABSENT if spread is None else show(getattr(spread, name))

    return one


def _fano(window_s: float) -> Callable[[TraceFacts], str]:
    return lambda f: digits(f.burstiness.fano.get(window_s))


def _names(name: str) -> Callable[[TraceFacts], str]:
    def show(facts: TraceFacts) -> str:
        numbers: dict[str, int] = getattr(facts, name)
        shown = [f"{label} {percent(k / facts.num_requests)}" for label, k in numbers.items()]
        more = [f"{len(shown) - 4} more"] if len(shown) > 4 else []
        return ", ".join([*shown[:4], *more]) or ABSENT

    return show


def _rate(rate_per_s: float | None) -> str:
    return ABSENT if rate_per_s is None else f"{digits(rate_per_s)} requests/s"


def digits_or_count(value: float) -> str:
    """A mean or percentile of whole numbers: with a fraction only where it matters."""
    return digits(value) if value < 100 and value != int(value) else count(value)


def _block_reuse(facts: TraceFacts) -> str:
    curve = facts.curve
    return f"{percent(float(curve.reuse_ratio[-1]))} ({curve.block_tokens} tokens each)"


def _cache_for(facts: TraceFacts, share: float) -> str:
    if not facts.curve.reuse_ratio[-1] > 0:
        return ABSENT
    note = "" if facts.curve.sampled_ratio == 1 else " (from a sample)"
    return f"{facts.curve.tokens_for(share):,} tokens of cache{note}"
