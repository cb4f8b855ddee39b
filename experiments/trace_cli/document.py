"""Facts of a trace as JSON."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from traces.analysis.facts import TraceFacts


def document_of(facts: TraceFacts, provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Everything about a trace; names carry their units, and null is what does not apply."""
    document = asdict(facts)
    curve = document.pop("curve")
    burst = document.pop("burstiness")
    document["mean_rate_per_s"] = burst["mean_rate_per_s"]
    document["inter_arrival_cv"] = burst["inter_arrival_cv"]
    document["fano"] = [
        {"window_s": window, "fano": fano} for window, fano in burst["fano"].items()
    ]
    document["reuse_by_cache"] = {
        "block_tokens": curve["block_tokens"],
        "cache_tokens": facts.curve.cache_tokens,
        "reuse_ratio": curve["reuse_ratio"],
        "standard_error": curve["standard_error"],
        "sampled_ratio": curve["sampled_ratio"],
    }
    return {"schema_version": 1, "provenance": dict(provenance), **document}
