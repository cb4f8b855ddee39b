"""`validate_vllm_a100`: latencies of vLLM at four points against whole simulated runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from experiments.studies.base import Bench, Study
from experiments.studies.findings import Findings, Row, Section, Verdict, mean_absolute_error
from experiments.studies.runs import Simulated
from experiments.studies.vllm_a100.hit_share import HitShare, fit_hit_share
from experiments.studies.vllm_a100.notes import notes_of
from experiments.studies.vllm_a100.points import METRICS, POINTS, Point, Run, share_of
from experiments.studies.vllm_a100.scan import Found, Scan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LIMIT_RATIO = 0.05
"""Largest mean absolute error of the four inter-token latencies."""

ITL_TITLE = "inter-token latency, constant arrivals"
POISSON_TITLE = "the same, Poisson arrivals"
SCAN_TITLE = "inter-token latency over the hit share"

FRONT_END_PARTS = ("frontend_in", "queue", "prefill", "frontend_out")
_MS_PER_S = 1e3


@dataclass(frozen=True, slots=True)
class _Extent:
    """What a size runs.

    Attributes:
        seconds: length of the load.
        num_seeds: seeds of runs with evenly spaced arrivals, which differ little.
        num_poisson_seeds: seeds of runs with Poisson arrivals.
        has_all_points: whether the 70B points too are simulated at the shares beside the best.
    """

    seconds: float
    num_seeds: int
    num_poisson_seeds: int
    has_all_points: bool


_EXTENTS = {
    "quick": _Extent(100.0, 3, 3, False),
    "full": _Extent(600.0, 3, 10, True),
}


class ValidateVllmA100(Study):
    """Fits the hit share to the 8B points, then simulates all four."""

    name = "validate_vllm_a100"
    question = (
        "Does a simulated run give the inter-token latencies of vLLM on A100, 8B and 70B at 2.5 "
        "and 6 requests/s, with nothing fitted but the share of cached prompt tokens, and that on "
        "the 8B points alone?"
    )
    sizes: Mapping[str, str] = {
        "quick": "100 s of load per point, 3 seeds, about 50 jobs (half a minute)",
        "full": "600 s of load, 10 seeds of Poisson arrivals, 70B at other shares too (minutes)",
    }
    decides = ("trace", "model", "cluster", "replications", "frontend.enabled", "experiment")

    def run(self, bench: Bench) -> Findings:
        """Fit, simulate and compare."""
        extent = _EXTENTS[bench.size]
        base = Run(
            blocks=0, arrivals="constant", seconds=extent.seconds, num_seeds=extent.num_seeds
        )
        scan = Scan(bench.runner, base)
        fit = fit_hit_share(scan.errors_at)
        if extent.has_all_points:
            scan.simulate(fit.beside, [point for point in POINTS if not point.is_fitted])
        run = replace(base, blocks=fit.blocks)
        poisson = replace(run, arrivals="poisson", num_seeds=extent.num_poisson_seeds)
        return _findings(bench, (run, poisson, replace(run, has_frontend=True)), fit, scan.found)

    def pictures(self, findings: Findings) -> "Mapping[str, Figure]":
        """Measured against simulated, and the errors over the hit share."""
        from experiments.studies.vllm_a100.figure import errors_figure

        itl = findings.section(ITL_TITLE).rows
        poisson = findings.section(POISSON_TITLE).rows
        return {self.name: errors_figure(itl, poisson, findings.section(SCAN_TITLE).rows)}


def _findings(bench: Bench, variants: Sequence[Run], fit: HitShare, scan: Found) -> Findings:
    """All rows.

    Args:
        bench: runs the jobs.
        variants: evenly spaced arrivals, Poisson arrivals, a front end; at the fitted share.
        fit: the fitted share.
        scan: what was simulated on the way to it.
    """
    found = bench.runner.run([one.case(point) for one in variants for point in POINTS])
    labels = [point.label for point in POINTS]
    constant, poisson, with_frontend = (
        dict(zip(labels, found[first : first + len(POINTS)], strict=True))
        for first in range(0, len(found), len(POINTS))
    )
    itl = tuple(_row(point, constant[point.label], METRICS[0]) for point in POINTS)
    itl_poisson = tuple(_row(point, poisson[point.label], METRICS[0]) for point in POINTS)
    sections = (
        Section(title=ITL_TITLE, rows=itl),
        Section(title=POISSON_TITLE, rows=itl_poisson),
        Section(
            title="time to first token, constant arrivals, no front end", rows=_ttft_rows(constant)
        ),
        Section(
            title="time to first token, constant arrivals, default front end",
            rows=_front_end_rows(with_frontend),
        ),
        Section(title="end to end, constant arrivals", rows=_rows(constant, METRICS[4:])),
        Section(title="end to end, Poisson arrivals", rows=_rows(poisson, METRICS[4:])),
        Section(title=SCAN_TITLE, rows=_scan_rows(scan), is_printed=False),
    )
    verdicts = (
        Verdict(
            text="ITL: mean absolute error of the four points",
            value_ratio=mean_absolute_error(itl),
            limit_ratio=LIMIT_RATIO,
        ),
        Verdict(text="of the two fitted (8B)", value_ratio=mean_absolute_error(itl[:2])),
        Verdict(text="of the two not fitted (70B)", value_ratio=mean_absolute_error(itl[2:])),
        Verdict(
            text="of the four with Poisson arrivals at the same share",
            value_ratio=mean_absolute_error(itl_poisson),
        ),
    )
    return Findings(verdicts=verdicts, sections=sections, notes=notes_of(fit, variants, scan))


def _row(point: Point, found: Simulated, metric: str, at: float | None = None) -> Row:
    is_fit = metric == METRICS[0]
    measured = point.measured_ms.get(metric)
    return Row(
        setting=point.label,
        quantity=_title(metric),
        unit="ms",
        claim=None if measured is None else (measured, measured),
        simulated=found.interval(metric, _MS_PER_S),
        role=point.role if is_fit else "",
        at=at,
    )


def _rows(found: Mapping[str, Simulated], metrics: Sequence[str]) -> tuple[Row, ...]:
    return tuple(_row(point, found[point.label], metric) for point in POINTS for metric in metrics)


def _ttft_rows(found: Mapping[str, Simulated]) -> tuple[Row, ...]:
    """TTFT, then its two parts: what is not queueing is prefill, for their means add up."""
    rows: list[Row] = []
    for point in POINTS:
        one = found[point.label]
        rows += [_row(point, one, metric) for metric in METRICS[1:4]]
        rows += [_row(point, one, "queue_mean_s")]
    return tuple(rows)


def _front_end_rows(found: Mapping[str, Simulated]) -> tuple[Row, ...]:
    parts = [f"{part}_mean_s" for part in FRONT_END_PARTS]
    return _rows(found, ["ttft_mean_s", *parts, METRICS[0]])


def _scan_rows(scan: Found) -> tuple[Row, ...]:
    return tuple(
        _row(point, scan[blocks][point.label], METRICS[0], at=share_of(blocks))
        for point in POINTS
        for blocks in sorted(scan)
        if point.label in scan[blocks]
    )


def _title(metric: str) -> str:
    name, _, rest = metric.removesuffix("_s").rpartition("_")
    words = {"frontend_in": "way in", "frontend_out": "way out"}
    return f"{words.get(name, name if name in ('queue', 'prefill') else name.upper())} {rest}"
