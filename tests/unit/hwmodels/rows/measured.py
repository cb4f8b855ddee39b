"""Rows of synthetic devices, measured as the command does."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from hwmodels.device import DeviceSpec, load_profile
from hwmodels.fitting.rows_file import RowsFile, read_rows_file
from hwmodels.kernels.models import KernelModels
from hwmodels.microbench.case import Case
from hwmodels.microbench.harness import measure_plan
from hwmodels.microbench.plans import PLANS, planned_cases
from hwmodels.microbench.row_format import Header, Row
from hwmodels.microbench.rows import RowsWriter
from hwmodels.synthetic_device import SimulatedTime, SyntheticDevice

DATE = "2026-01-02"
SPEC = load_profile("a100_sxm_80gb")
HIDDEN = SPEC.kernels


def hidden_with_drift(drift_tokens: float) -> KernelModels:
    """The A100 with another drift of the requests of a wave."""
    assert HIDDEN.shared_prefix is not None
    return replace(HIDDEN, shared_prefix=replace(HIDDEN.shared_prefix, drift_tokens=drift_tokens))


def header_of(device: SyntheticDevice, plan: str = "a100") -> Header:
    """Of rows of a device."""
    return Header(
        device=device.info, versions=device.versions, date=DATE, plan=plan, seed=device.seed
    )


def measured(
    path: Path,
    models: KernelModels = HIDDEN,
    spec: DeviceSpec = SPEC,
    plan: str = "a100",
    budget_s: float = 1e4,
    seed: int = 0,
) -> RowsFile:
    """A whole plan, or what of it fits into the budget."""
    device = SyntheticDevice(spec=spec, models=models, seed=seed)
    timed = SimulatedTime(device)
    planned = planned_cases(PLANS[plan], device.info, device.seed)
    writer = RowsWriter(path, header_of(device, plan))
    measure_plan(
        timed, planned, writer, deadline_s=budget_s, clock=timed.clock, say=lambda line: None
    )
    return read_rows_file(path)


def written(path: Path, cases: Iterable[Case], num_gpus: int = 1) -> RowsFile:
    """Rows of some cases, without noise."""
    device = SyntheticDevice(
        spec=SPEC, models=HIDDEN, noise=0.0, outlier_share=0.0, num_gpus=num_gpus
    )
    writer = RowsWriter(path, header_of(device))
    for case in cases:
        writer.write(Row(case=case, measurement=device.measure(case), took_s=0.1))
    return read_rows_file(path)
