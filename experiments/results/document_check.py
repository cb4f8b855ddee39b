"""What a result.json and its tables must hold before anything reads them."""

from collections.abc import Iterator, Mapping
from typing import Any

from experiments.results.documents import SCHEMA_VERSION

STATUSES = ("ok", "infeasible", "interrupted", "failed")

COLUMNS = {
    "requests.parquet": ("arrival_s", "finish_s"),
    "steps.parquet": ("start_s", "end_s"),
    "distributions.parquet": ("quantile", "itl_s"),
    "decisions.parquet": ("request_id", "instance"),
}
"""Columns without which a table is none of ours."""

_SECTIONS = ("metrics", "provenance", "versions", "cost_totals", "offered_load", "routing")
_LISTS = ("flags", "replications", "instances")


def fault_of(document: Mapping[str, Any]) -> str | None:
    """What is wrong with the content of a result.json, one line; None if it can be read."""
    return next(_faults(document), None)


def _faults(document: Mapping[str, Any]) -> Iterator[str]:
    version = document.get("schema_version")
    if version != SCHEMA_VERSION:
        yield f"schema_version is {version!r}, this flocksim reads {SCHEMA_VERSION}"
    status = document.get("status")
    if status not in STATUSES:
        yield f"status is {status!r}, must be one of {', '.join(STATUSES)}"
    config = document.get("config")
    if not isinstance(config, dict) or not isinstance(config.get("choices"), dict):
        yield "config.choices is missing"
    for names, kind, kind_name in ((_SECTIONS, dict, "an object"), (_LISTS, list, "a list")):
        for name in names:
            if not isinstance(document.get(name), kind | None):
                yield f"{name} is {document[name]!r:.60}, must be {kind_name} or null"
    seed = document.get("seed")
    if not isinstance(seed, int | None):
        yield f"seed is {seed!r}, must be an integer or null"
    if status == "ok" and not document.get("metrics"):
        yield "status is 'ok', but metrics are missing"
    yield from _wrong_metrics(document.get("metrics") or {}, "metrics")
    for index, flag in enumerate(document.get("flags") or []):
        if not isinstance(flag, dict) or not {"flag", "text"} <= flag.keys():
            yield f"flags[{index}] is {flag!r:.60}, must be an object with flag and text"
    for index, one in enumerate(document.get("replications") or []):
        where = f"replications[{index}]"
        if not isinstance(one, dict) or not isinstance(one.get("metrics"), dict):
            yield f"{where} is {one!r:.60}, must be an object with metrics"
            continue
        for key in ("replication", "seed"):
            if not isinstance(one.get(key), int):
                yield f"{where}.{key} is {one.get(key)!r}, must be an integer"
        if "regime" not in one:
            yield f"{where}.regime is missing"
        yield from _wrong_metrics(one["metrics"], f"{where}.metrics")


def _wrong_metrics(metrics: Mapping[str, Any], where: str) -> Iterator[str]:
    for name, value in metrics.items():
        if not isinstance(value, int | float | None):
            yield f"{where}.{name} is {value!r:.60}, must be a number or null"
