"""`validate_ada_cascade`: decoding behind one shared prefix, with and without cascade attention."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from experiments.chosen_device import chosen_device
from experiments.studies.ada_cascade.anchor import ANCHORS, OFF, ON, Anchor
from experiments.studies.ada_cascade.notes import NOTES
from experiments.studies.ada_cascade.variations import variations, write_profile
from experiments.studies.base import Bench, Study
from experiments.studies.findings import Findings, Row, Section, Verdict
from experiments.studies.runs import Case, Simulated

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LIMIT_RATIO = 0.1
"""Largest error of the two judged times per output token."""

TPOT_TITLE = "time per output token"
VARIED_TITLE = "what hangs on what: cascade off, 100 users"
_MS_PER_S = 1e3
_NUM_REQUESTS = {"quick": 1500, "full": 6000}


class ValidateAdaCascade(Study):
    """Repeats the measured rows, then changes or takes away parts of the model."""

    name = "validate_ada_cascade"
    question = (
        "Does a simulated run give the time per output token of 100 requests behind one shared "
        "prefix of 10,000 tokens on an RTX 6000 Ada, with cascade attention on and off?"
    )
    sizes: Mapping[str, str] = {
        "quick": "1,500 requests a job, 13 jobs (ten seconds)",
        "full": "6,000 requests a job, the same jobs",
    }
    decides = (
        *("trace", "model", "cluster", "replications", "frontend.enabled", "experiment"),
        *("kernel", "hardware.fidelity", "engine.max_num_seqs"),
    )

    def run(self, bench: Bench) -> Findings:
        """Simulate and compare; nothing is fitted here."""
        num_requests = _NUM_REQUESTS[bench.size]
        plain = [anchor.case(num_requests) for anchor in ANCHORS]
        fronted = [anchor.case(num_requests, has_frontend=True) for anchor in ANCHORS]
        without_l2 = [anchor.case(num_requests, fidelity="calibrated") for anchor in (OFF, ON)]
        found = bench.runner.run([*plain, *fronted, *without_l2])
        tpot = tuple(
            _tpot(anchor, one, anchor.role, is_judged=anchor.is_judged)
            for anchor, one in zip(ANCHORS, found[:3], strict=True)
        )
        varied = (
            *_varied_rows(bench, num_requests),
            _tpot(OFF, found[6], "no L2 hits"),
            _tpot(OFF, found[3], "default front end"),
        )
        sections = (
            Section(title=TPOT_TITLE, rows=tpot),
            Section(title=VARIED_TITLE, rows=varied),
            Section(
                title="cascade on: the same, without L2 hits, with the default front end",
                rows=(
                    _tpot(ON, found[7], "no L2 hits"),
                    _tpot(ANCHORS[1], found[4], "default front end"),
                    _tpot(ANCHORS[2], found[5], "default front end"),
                ),
            ),
            Section(
                title="throughput, not judged",
                rows=tuple(
                    _throughput(anchor, one, title)
                    for title, runs in (("", found[:3]), ("default front end", found[3:6]))
                    for anchor, one in zip(ANCHORS, runs, strict=True)
                ),
            ),
        )
        verdicts = tuple(
            Verdict(
                text=f"TPOT, {row.setting} ({row.role}): error",
                value_ratio=abs(row.error_ratio or 0.0),
                limit_ratio=row.limit_ratio,
            )
            for row in tpot
        )
        return Findings(verdicts=verdicts, sections=sections, notes=NOTES)

    def pictures(self, findings: Findings) -> "Mapping[str, Figure]":
        """Measured ranges and simulated values; what hangs on what."""
        from experiments.studies.ada_cascade.figure import anchor_figure

        rows, varied = (findings.section(title).rows for title in (TPOT_TITLE, VARIED_TITLE))
        return {self.name: anchor_figure(rows, varied)}


def _varied_rows(bench: Bench, num_requests: int) -> list[Row]:
    """Cascade off under copies of the profile, each with one constant changed."""
    case = OFF.case(num_requests)
    device = chosen_device(bench.runner.job(case).hardware)
    varied = list(variations(device.kernels))
    cases: list[Case] = []
    for one in varied:
        path = write_profile(device, one, bench.directory / "profiles")
        of_file = ("hardware=from_file", f"hardware.path='{path.resolve()}'")
        cases.append(Case(f"{case.folder}-{one.name}", case.overrides, of_file))
    found = bench.runner.run(cases)
    return [_tpot(OFF, run, one.label) for one, run in zip(varied, found, strict=True)]


def _tpot(anchor: Anchor, found: Simulated, role: str, *, is_judged: bool = False) -> Row:
    return Row(
        setting=anchor.label,
        quantity="TPOT mean",
        unit="ms",
        claim=anchor.tpot_ms,
        simulated=found.interval("tpot_mean_s", _MS_PER_S),
        role=role,
        limit_ratio=LIMIT_RATIO if is_judged else None,
    )


def _throughput(anchor: Anchor, found: Simulated, role: str) -> Row:
    return Row(
        setting=anchor.label,
        quantity="output",
        unit="tokens/s",
        claim=anchor.output_tokens_per_s,
        simulated=found.interval("output_tokens_per_s"),
        role=role,
    )
