"""What a user cannot profile: time of the host per step and per request, and what precedes both."""

from dataclasses import dataclass

from hwmodels.device import CONSTANT_UNITS, DeviceSpec
from sim.records import SimulationResult

OFFSET = "ttft_offset_s"
"""Time before the engine sees a request and after it has its first token: network, HTTP, tokens."""

STEP_S = 5e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class HostConstant:
    """A constant that a fit may change.

    Attributes:
        name: field of `DeviceSpec`, or `OFFSET`.
        title: in words.
        low: smallest value, seconds.
        high: largest value, seconds.
    """

    name: str
    title: str
    low: float
    high: float


CONSTANTS = (
    HostConstant(name="step_overhead_s", title="host time per step", low=1e-5, high=0.1),
    HostConstant(
        name="step_overhead_request_s",
        title="host time per request of a step",
        low=0.0,
        high=5e-3,
    ),
    HostConstant(name=OFFSET, title="TTFT offset", low=0.0, high=30.0),
)


def fitted_constants() -> tuple[HostConstant, ...]:
    """The constants that the cost models have, and the offset."""
    return tuple(one for one in CONSTANTS if one.name in CONSTANT_UNITS or one.name == OFFSET)


def prior_of(device: DeviceSpec) -> dict[str, float]:
    """The constants before a fit, by name: those of the profile, and no offset."""
    return {one.name: float(getattr(device, one.name, 0.0)) for one in fitted_constants()}


def steps_of(result: SimulationResult) -> dict[str, float]:
    """How far each constant is moved to see what depends on it, by name, seconds.

    By some percent of a short step of the engine.

    Args:
        result: a replay with the constants as they are; its batches tell how often the time per
            request is added.
    """
    num_steps = sum(len(instance.step_end_s) for instance in result.instances)
    tokens = int(result.workload.output_tokens[result.requests.is_completed].sum())
    batch = max(1.0, tokens / num_steps)
    return {"step_overhead_s": STEP_S, "step_overhead_request_s": STEP_S / batch, OFFSET: STEP_S}
