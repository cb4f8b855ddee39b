"""Plans: which cases are measured on a GPU, in which order, and how long each may take."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from hwmodels.microbench.case import Case
from hwmodels.microbench.cases import case_of
from hwmodels.microbench.errors import MicrobenchError
from hwmodels.microbench.plan_grids import (
    A100_L2,
    AFTER_L2,
    GENERIC_L2,
    HOPPER_L2,
    Grid,
    Stage,
)
from hwmodels.microbench.row_format import DeviceInfo

COMPILE_S = 2.0
"""Allowance for the kernels of a `compile_key` that was not seen yet."""
_FIXED_S = 0.15
"""Allowance for data, warm-up and checks of a small case."""
_RUNS = 40
"""Runs that a case makes in all, warm-up included, if it is short."""
_LONGEST_RUN_S = 0.03
"""Cases of longer single runs are left out of a plan."""
_MEMORY_RATIO = 0.8
"""Share of the device memory that a case may need."""
_GB = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is measured on one kind of GPU.

    Attributes:
        name: as `--plan` takes it.
        capability: compute capability that it is for, as text; empty: any from 8.0, the first with
            bf16 and asynchronous copies.
        min_memory_bytes: device memory that it needs.
        hbm_bytes_per_s: memory rate for estimates of time, rather low.
        flops_per_s: matrix rate for estimates of time, rather low.
        stages: grids in the order of measurement.
    """

    name: str
    capability: str
    min_memory_bytes: float
    hbm_bytes_per_s: float
    flops_per_s: float
    stages: tuple[Stage, ...]


PLANS: dict[str, Plan] = {
    plan.name: plan
    for plan in (
        Plan(
            name="a100",
            capability="8.0",
            min_memory_bytes=75 * _GB,
            hbm_bytes_per_s=1.2e12,
            flops_per_s=1e14,
            stages=(A100_L2, *AFTER_L2),
        ),
        Plan(
            name="hopper",
            capability="9.0",
            min_memory_bytes=75 * _GB,
            hbm_bytes_per_s=2e12,
            flops_per_s=2e14,
            stages=(HOPPER_L2, *AFTER_L2),
        ),
        Plan(
            name="generic",
            capability="",
            min_memory_bytes=7.5 * _GB,
            hbm_bytes_per_s=4e11,
            flops_per_s=3e13,
            stages=(GENERIC_L2, *AFTER_L2),
        ),
    )
}
"""All plans by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCase:
    """One case of a plan.

    Attributes:
        case: what is measured.
        stage: name of its stage.
        cost_s: how long it should take, compilation not included.
    """

    case: Case
    stage: str
    cost_s: float


def plan_of(name: str, device: DeviceInfo) -> Plan:
    """The plan of that name, "auto" for the one that fits best.

    Raises:
        MicrobenchError: no such plan, or it is for other GPUs or for more memory.
    """
    if name == "auto":
        name = next((key for key, plan in PLANS.items() if _fits(plan, device)), "generic")
    plan = PLANS.get(name)
    if plan is None:
        raise MicrobenchError(f"unknown plan {name!r}; allowed: auto, {', '.join(PLANS)}")
    if not _has_capability(plan, device):
        wanted = plan.capability or "8.0 or later"
        raise MicrobenchError(
            f"plan {name} is for compute capability {wanted}, "
            f"found {device.name} with {device.compute_capability}"
        )
    if device.memory_bytes < plan.min_memory_bytes:
        raise MicrobenchError(
            f"plan {name} needs {plan.min_memory_bytes / _GB:.1f} GB of device memory, "
            f"found {device.name} with {device.memory_bytes / _GB:.1f} GB"
        )
    return plan


def planned_cases(plan: Plan, device: DeviceInfo, seed: int = 0) -> list[PlannedCase]:
    """All cases that fit the device, in the order of measurement.

    Args:
        plan: what to measure.
        device: cases that need more memory or GPUs are left out.
        seed: of the order inside a stage.
    """
    order = Random(seed)
    planned: list[PlannedCase] = []
    seen: set[str] = set()
    for stage in plan.stages:
        cases = [case for grid in stage.grids for case in _cases(grid)]
        order.shuffle(cases)
        for case in cases:
            if case.id not in seen and _can_run(case, plan, device):
                seen.add(case.id)
                cost_s = estimated_cost_s(case, plan)
                planned.append(PlannedCase(case=case, stage=stage.name, cost_s=cost_s))
    return planned


def estimated_cost_s(case: Case, plan: Plan) -> float:
    """Seconds that a case should take without compilation."""
    return _FIXED_S + _RUNS * _estimated_run_s(case, plan)


def _has_capability(plan: Plan, device: DeviceInfo) -> bool:
    if plan.capability:
        return device.compute_capability == plan.capability
    return int(device.compute_capability.split(".")[0]) >= 8


def _fits(plan: Plan, device: DeviceInfo) -> bool:
    return _has_capability(plan, device) and device.memory_bytes >= plan.min_memory_bytes


def _cases(grid: Grid) -> Iterator[Case]:
    names = [key.split() for key in grid.axes]
    for values in itertools.product(*grid.axes.values()):
        params: dict[str, object] = {}
        for keys, value in zip(names, values, strict=True):
            parts = value if isinstance(value, tuple) else (value,)
            params.update(zip(keys, parts, strict=True))
        yield case_of(grid.case, params)


def _can_run(case: Case, plan: Plan, device: DeviceInfo) -> bool:
    params = case.params
    num_gpus = 2 if params.get("direction") == "p2p" else int(params.get("num_gpus", 1))
    if num_gpus > device.num_gpus or case.memory_bytes > _MEMORY_RATIO * device.memory_bytes:
        return False
    # One group reads the same in either order.
    is_repeated = params.get("groups") == 1 and params.get("member_order") == "interleaved"
    return not is_repeated and _estimated_run_s(case, plan) <= _LONGEST_RUN_S


def _estimated_run_s(case: Case, plan: Plan) -> float:
    host_bytes_per_s = 5e9 if case.name == "copy" else plan.hbm_bytes_per_s
    memory_s = case.read_bytes / host_bytes_per_s
    return max(memory_s, (case.num_flops or 0) / plan.flops_per_s)
