"""The section `scheduler`: CPU time of the batch policy, off by default."""

from dataclasses import dataclass, fields, replace

from experiments.schema.checks import checked, flag, number, optional
from sim.errors import ConfigError
from sim.scheduler_cost import SchedulerCost

DEFAULT_SCHEDULER = SchedulerCost(
    token_compared_s=21e-9,
    node_visit_s=0.4e-6,
    key_hashed_s=0.65e-6,
    token_hashed_s=50e-9,
    heap_operation_s=0.17e-6,
    candidate_s=0.11e-6,
    request_s=0.0,
    language_factor=1.0,
)
"""What a constant that is left out becomes.

Source: `python -m tests.bench.scheduler_operations` under Python 3.11.7 on an AMD EPYC, three runs
within 5 % (docs/scheduler_cpu.md): 21.2 to 21.7 ns per token compared, 0.46 to 0.47 us per radix
node and 0.28 us per chunk key (one constant between them), 0.61 to 0.67 us per chunk hash and 48 to
51 ns per token in it, 0.17 us per heap operation, 0.11 us per request sorted. `request_s` is 0
because the host time of a step and its requests is in the cost models; `language_factor` is 1
because the schedulers of vLLM and SGLang are Python. Compiled code is 20 times as fast by
assumption: an insertion of a 10,000-token prompt into Feather's tree took 7.4 to 8.3 ms in Python
and 0.39 ms in C++ (a third party's measurement, POLICIES 1.6).
"""

MAX_CONSTANT_S = 1.0
MAX_FACTOR = 1e4


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """Constants of `SchedulerCost`; null takes the default, and is a must while off."""

    enabled: bool = checked(flag)
    token_compared_s: float | None = checked(optional(number(high=MAX_CONSTANT_S)))
    node_visit_s: float | None = checked(optional(number(high=MAX_CONSTANT_S)))
    key_hashed_s: float | None = checked(optional(number(high=MAX_CONSTANT_S)))
    token_hashed_s: float | None = checked(optional(number(high=MAX_CONSTANT_S)))
    heap_operation_s: float | None = checked(optional(number(high=MAX_CONSTANT_S)))
    candidate_s: float | None = checked(optional(number(high=MAX_CONSTANT_S)))
    request_s: float | None = checked(optional(number(high=MAX_CONSTANT_S)))
    language_factor: float | None = checked(optional(number(above=0, high=MAX_FACTOR)))


SCHEDULER_CONSTANTS = tuple(item.name for item in fields(SchedulerCost))


def refuse_unread_scheduler(config: SchedulerConfig) -> None:
    """A constant decides nothing while scheduler time is off.

    Raises:
        ConfigError: names the key and what to do.
    """
    for name in SCHEDULER_CONSTANTS:
        value = getattr(config, name)
        if value is not None and not config.enabled:
            raise ConfigError(
                f"scheduler.{name}={value:g} has no effect when scheduler.enabled=false: leave it "
                "out or set scheduler.enabled=true"
            )


def scheduler_of(config: SchedulerConfig) -> SchedulerCost | None:
    """The costs with their defaults filled in; None if scheduler time is off."""
    if not config.enabled:
        return None
    given = {name: getattr(config, name) for name in SCHEDULER_CONSTANTS}
    return replace(
        DEFAULT_SCHEDULER, **{name: value for name, value in given.items() if value is not None}
    )
