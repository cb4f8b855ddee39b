"""What a comparison leaves out, and what its runs warn of."""

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from experiments.results.flags import is_told
from experiments.results.labels import NO_SETTING, POLICY_GROUPS, SHORT_DIGEST

if TYPE_CHECKING:
    from experiments.results.load import Run


def left_out(runs: "Sequence[Run]", copies: "Sequence[Run]") -> list[str]:
    """Jobs that did not end well, each with its reason, and copies of others."""
    notes: list[str] = []
    for run in runs:
        if run.status != "ok":
            why = run.document.get("error") or "stopped before its end"
            notes.append(f"not in the table: {_job(run)} ({run.status}): {why}")
    if copies:
        places = some([str(run.directory) for run in copies])
        notes.append(f"left out as copies of another job (equal job_key): {places}")
    return notes


def _job(run: "Run") -> str:
    """Directory and what the job was."""
    chosen = [f"{group}={run.choices[group]}" for group in POLICY_GROUPS if group in run.choices]
    given = [item for item in run.overrides if re.split("[.=]", item)[0] not in NO_SETTING]
    return " ".join([str(run.directory), *(given or chosen[:2])])


def flags(done: "Sequence[Run]", settings: Collection[str]) -> list[str]:
    """Flags that any run carries, once each (and per kernel), with how many runs do.

    Not those that only say what a setting says.
    """
    texts: dict[tuple[str, str], dict[str, None]] = {}
    counts: dict[tuple[str, str], int] = {}
    for run in done:
        for flag in run.document.get("flags") or []:
            if not is_told(flag) or any(f"trace.{key}" in settings for key in flag):
                continue
            key = str(flag["flag"]), str(flag.get("kernel"))
            texts.setdefault(key, {})[str(flag["text"])] = None
            counts[key] = counts.get(key, 0) + 1
    notes: list[str] = []
    for key, unlike in texts.items():
        name, first = key[0], next(iter(unlike))
        more = " (other numbers in other runs)" if len(unlike) > 1 else ""
        where = "all runs" if counts[key] == len(done) else f"{counts[key]} of {len(done)} runs"
        notes.append(f"flag {name} in {where}: {first}{more}")
    return notes


def versions(done: "Sequence[Run]") -> list[str]:
    """Differences of software among the runs."""
    notes: list[str] = []
    names = dict.fromkeys(name for run in done for name in run.document.get("versions") or {})
    for name in names:
        found = sorted({str((run.document.get("versions") or {}).get(name)) for run in done})
        if len(found) > 1:
            notes.append(f"warning: runs of different versions of {name}: {', '.join(found)}")
    sources = sorted({str(provenance_of(run).get("sources_sha256")) for run in done})
    if len(sources) > 1:
        shown = ", ".join(digest[:SHORT_DIGEST] for digest in sources)
        notes.append(f"warning: runs of different source code of flocksim: {shown}")
    return notes


def provenance_of(run: "Run") -> dict[str, Any]:
    """Where trace, profile and code of a run came from."""
    return run.document.get("provenance") or {}


def some(items: Sequence[str], limit: int = 6) -> str:
    """The first items in one line, and how many more there are."""
    more = f" and {len(items) - limit} more" if len(items) > limit else ""
    return ", ".join(items[:limit]) + more
