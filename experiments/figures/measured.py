"""Measured runs to compare with: result files of `vllm bench serve --save-result`.

Source: vllm/benchmarks/serve.py of vLLM, commit 009e6d4a. Statistics are milliseconds under names
such as `p99_ttft_ms`; with `--save-detailed`, `ttfts` (one per request), `itls` (a list of gaps per
request) are seconds and `output_lens` tokens, all 0 or empty for a failed request. Files grown with
`--append-result` hold one object a line.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.figures.errors import MeasuredError

MeasuredFiles = str | Path | Sequence[str | Path]
FloatArray = npt.NDArray[np.float64]

_QUANTITIES = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2el": "e2e"}
_STATISTICS = {"mean": "mean", "median": "p50", "p50": "p50", "p90": "p90", "p99": "p99"}
_RATES = {
    "request_throughput": "request_rate_per_s",
    "output_throughput": "output_tokens_per_s",
    "request_goodput": "goodput_per_s",
}
_COMMAND = "`vllm bench serve --save-result`"


@dataclass(frozen=True, slots=True)
class Measured:
    """One measured run.

    Attributes:
        name: the file.
        offered_rate_per_s: the rate asked for, or what was served where that was unlimited.
        users: the limit of requests at a time (`max_concurrency`) where the rate was unlimited;
            None without one.
        metrics: by our names and in our units, those that the file has.
        samples: values of `ttft`, `tpot`, `itl` and `e2e` in seconds, those that the file has.
    """

    name: str
    offered_rate_per_s: float
    metrics: dict[str, float]
    samples: dict[str, FloatArray] = field(default_factory=dict)
    users: int | None = None


def measured_runs(files: MeasuredFiles | None) -> list[Measured]:
    """All runs of some files.

    Raises:
        MeasuredError: a file is missing or no such result; one line says what is wrong.
    """
    if files is None:
        return []
    paths = [files] if isinstance(files, str | Path) else list(files)
    return [run for path in paths for run in _runs_of(Path(path))]


def _runs_of(path: Path) -> list[Measured]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise MeasuredError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise MeasuredError(f"{path}: is no text, but must be a result of {_COMMAND}") from error
    return [_run(document, path) for document in _documents(text, path)]


def _documents(text: str, path: Path) -> list[dict[str, Any]]:
    """The objects of a file, one after the other."""
    decoder = json.JSONDecoder()
    documents: list[dict[str, Any]] = []
    at, text = 0, text.strip()
    while at < len(text):
        try:
            document, at = decoder.raw_decode(text, at)
        except ValueError as error:
            raise MeasuredError(f"{path}: is no JSON: {error}") from error
        if not isinstance(document, dict):
            kind = type(document).__name__
            raise MeasuredError(f"{path}: must hold an object of {_COMMAND}, found {kind}")
        documents.append(document)
        while at < len(text) and text[at].isspace():
            at += 1
    if not documents:
        raise MeasuredError(f"{path}: is empty, but must be a result of {_COMMAND}")
    return documents


def _run(document: dict[str, Any], path: Path) -> Measured:
    metrics = {
        ours: _number(document, theirs, path)
        for theirs, ours in _RATES.items()
        if document.get(theirs) is not None
    }
    if "request_rate_per_s" not in metrics:
        raise MeasuredError(f"{path}: has no request_throughput: not a result of {_COMMAND}")
    for quantity, our_quantity in _QUANTITIES.items():
        for statistic, our_statistic in _STATISTICS.items():
            name = f"{statistic}_{quantity}_ms"
            if name in document:
                value_s = _number(document, name, path) / 1e3
                metrics[f"{our_quantity}_{our_statistic}_s"] = value_s
    if not any(name.endswith("_s") and not name.endswith("_per_s") for name in metrics):
        raise MeasuredError(f"{path}: has no latency such as mean_ttft_ms: no result of {_COMMAND}")
    rate = document.get("request_rate")
    is_limited = isinstance(rate, int | float) and not isinstance(rate, bool) and 0 < rate < np.inf
    offered = float(rate) if is_limited and rate else metrics["request_rate_per_s"]
    limit = document.get("max_concurrency")
    is_closed = isinstance(limit, int) and not isinstance(limit, bool) and not is_limited
    users = limit if is_closed else None
    return Measured(path.name, offered, metrics, _samples(document, path), users)


def _number(document: dict[str, Any], name: str, path: Path) -> float:
    value = document[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise MeasuredError(f"{path}: {name} is {value!r}, must be a number")
    return float(value)


def _samples(document: dict[str, Any], path: Path) -> dict[str, FloatArray]:
    """Latencies of single requests, without those that failed; nothing in a file without them."""
    if not all(document.get(name) for name in ("ttfts", "itls", "output_lens")):
        return {}
    try:
        ttft_s = np.array(document["ttfts"], dtype=np.float64)
        tokens = np.array(document["output_lens"], dtype=np.float64)
        gaps = [np.array(item, dtype=np.float64) for item in document["itls"]]
        decode_s = np.array([item.sum() for item in gaps])
        is_done = (tokens > 0) & (ttft_s > 0) & (decode_s >= 0)
    except (TypeError, ValueError) as error:
        why = "must be lists of equal length, seconds and tokens"
        raise MeasuredError(f"{path}: ttfts, itls and output_lens {why}") from error
    has_tpot = is_done & (tokens > 1)
    samples = {
        "ttft": ttft_s[is_done],
        "tpot": decode_s[has_tpot] / (tokens[has_tpot] - 1),
        "itl": np.concatenate([np.empty(0), *(gaps[row] for row in np.flatnonzero(is_done))]),
        "e2e": (ttft_s + decode_s)[is_done],
    }
    return {name: values for name, values in samples.items() if len(values)}
