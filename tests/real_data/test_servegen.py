"""Both ServeGen directories: recorded counts and rates, means of the histograms, missing lengths.

Counts and means are summed up from the files here, without the reader: rate x 600 s per row, and
tokens x probability per histogram.
"""

import ast
import csv
import json
from pathlib import Path

import numpy as np
import pytest

from sim.errors import TraceFormatError
from tests.data_path import real_data_file
from traces.build import build_workload
from traces.readers.reading import FaultFinding
from traces.readers.servegen import ServeGenTrace

pytestmark = pytest.mark.real_data

DAY_S, HOUR_S = 86_400, 3600


def directory(name: str, client: str) -> Path:
    return real_data_file(f"traces/servegen/{name}/{client}-trace.csv").parent


def reasoning() -> Path:
    return directory("reason/deepseek-r1", "chunk-11")


def language() -> Path:
    return directory("language/m-small", "chunk-12")


def recorded(folder: Path, client: str, start_s: float, end_s: float) -> int:
    """Requests of a client in whole windows, straight from its file."""
    with (folder / f"{client}-trace.csv").open() as file:
        rows = [row for row in csv.reader(file) if start_s <= float(row[0]) < end_s]
    return round(sum(600 * float(row[1]) for row in rows))


def mean_of(folder: Path, client: str, start: str, name: str) -> float:
    """Mean of a histogram, straight from its file; 0 tokens count as 1."""
    text = json.loads((folder / f"{client}-dataset.json").read_text())[start][name]
    histogram: dict[int, float] = ast.literal_eval(text)
    return sum(max(tokens, 1) * share for tokens, share in histogram.items())


def test_a_day_of_reasoning_has_every_recorded_request() -> None:
    folder = reasoning()
    table = ServeGenTrace(path=folder, duration_s=None).load(0)
    assert table.tenant is not None
    counts = dict(zip(table.tenant.names, np.bincount(table.tenant.codes).tolist(), strict=True))
    assert len(counts) == 20
    assert counts == {client: recorded(folder, client, 0, DAY_S) for client in counts}
    assert table.num_requests == 1_182_352
    assert table.arrival_s[0] >= 0
    assert table.arrival_s[-1] < DAY_S


def test_reasoning_lengths_have_the_means_of_their_histograms() -> None:
    """From 43,200 s on, the busiest client alone sends enough for a mean within 3 %."""
    folder = reasoning()
    table = ServeGenTrace(path=folder, start_s=43_200, duration_s=21_600, clients=1).load(1)
    assert table.tenant is not None
    client = table.tenant.names[0]
    assert client == "chunk-48"
    for name, drawn in (
        ("input_tokens", table.prompt_tokens),
        ("output_tokens", table.output_tokens),
    ):
        assert drawn.mean() == pytest.approx(mean_of(folder, client, "43200", name), rel=0.03)


def test_three_language_clients_have_no_lengths() -> None:
    folder = language()
    source = ServeGenTrace(path=folder, duration_s=HOUR_S, rate_per_s=5.0)
    with pytest.raises(TraceFormatError, match=r"chunk-38 has no lengths .*3 such clients"):
        source.load(0)
    finding = FaultFinding(folder)
    source.read(finding)
    assert [fault.why.split()[0] for fault in finding.faults] == ["chunk-38", "chunk-5", "chunk-8"]


def test_an_hour_of_language_at_a_rate_is_a_workload() -> None:
    source = ServeGenTrace(
        path=language(), start_s=36_000, duration_s=HOUR_S, rate_per_s=5.0, missing_lengths="pool"
    )
    workload = build_workload(source, seed=0)
    # 8 clients in 6 windows each round to one of two integers
    assert workload.num_requests == pytest.approx(5 * HOUR_S, abs=48)
    assert workload.tenant is not None
    assert len(workload.tenant.names) == 8
    assert workload.prompt_tokens.min() >= 1 <= workload.output_tokens.min()


def test_language_requests_without_lengths_are_counted_when_skipped() -> None:
    folder = language()
    table = ServeGenTrace(path=folder, duration_s=600, missing_lengths="skip").load(0)
    without = sum(recorded(folder, client, 0, 600) for client in ("chunk-38", "chunk-5", "chunk-8"))
    assert table.provenance["skipped"] == {"no lengths": without}
    clients = ("chunk-12", "chunk-14", "chunk-17", "chunk-26", "chunk-27")
    assert table.num_requests == sum(recorded(folder, client, 0, 600) for client in clients)
    assert table.tenant is not None
    assert table.tenant.names == clients


def test_bursty_clients_are_bursty() -> None:
    """chunk-14 has a fitted Weibull shape of 0.405 in its first window: a CV of 3.07."""
    folder = language()
    source = ServeGenTrace(path=folder, duration_s=600, missing_lengths="skip")
    table = source.load(0)
    assert table.tenant is not None
    cvs = []
    for client in ("chunk-14", "chunk-12"):
        code = table.tenant.names.index(client)
        gaps_s = np.diff(table.arrival_s[table.tenant.codes == code])
        cvs.append(gaps_s.std() / gaps_s.mean())
    assert cvs[0] == pytest.approx(3.07, rel=0.15)
    assert cvs[1] == pytest.approx(0.9386**-0.5, rel=0.05)
