"""The section `frontend`: a stage that is off by default, and constants that fit a vLLM server."""

from dataclasses import dataclass, fields, replace

from experiments.schema.checks import checked, flag, number, optional
from experiments.schema.plugin import Plugin
from sim.errors import ConfigError
from sim.front_end import FrontEnd

DEFAULT_FRONT_END = FrontEnd(
    delay_s=15.6e-3,
    request_s=0.8e-3,
    token_s=1e-6,
    hash_block_s=1e-6,
    output_token_s=50e-6,
)
"""What a constant that is left out becomes.

Source: `delay_s` and `request_s`, BLIS's fit to vLLM on H100 (15.6 ms + 0.8 ms per request); that
the larger part keeps nobody waiting is an assumption: as work of one process it would cap a server
at 61 requests/s, and vLLM PR #12287 shows 64 requests/s beside 12,850 output tokens/s. `token_s`,
an assumption of the order that vLLM PR #10635 names (256 K tokens take a few hundred ms).
`hash_block_s`, measured for 16-token blocks (docs/frontend.md). `output_token_s`, observed on vLLM
servers, 200 us once.
"""

MAX_CONSTANT_S = 1e3


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontEndConfig:
    """Constants of `sim.front_end.FrontEnd`; null takes the default, and is a must while off."""

    enabled: bool = checked(flag)
    delay_s: float | None = checked(optional(number(high=MAX_CONSTANT_S)))
    request_s: float | None = checked(optional(number(high=MAX_CONSTANT_S)))
    token_s: float | None = checked(optional(number(high=MAX_CONSTANT_S)))
    hash_block_s: float | None = checked(optional(number(high=MAX_CONSTANT_S)))
    output_token_s: float | None = checked(optional(number(high=MAX_CONSTANT_S)))


CONSTANTS = tuple(item.name for item in fields(FrontEnd))


def why_unhashed(engine: Plugin, prefix_caching: bool) -> str:
    """Why the engines hash no prompts; empty if they do.

    Those whose prefix cache compares tokens say ``hashes_prompts = False`` in their class.
    """
    if not prefix_caching:
        return "when engine.prefix_caching=false"
    if not getattr(engine.load_class(), "hashes_prompts", True):
        return f"with {engine.target.rpartition('.')[2]}, which hashes no prompts"
    return ""


def refuse_unread_constants(config: FrontEndConfig, why_unhashed: str) -> None:
    """A constant of a stage that is off decides nothing, nor does hashing that nobody needs.

    Args:
        config: the section.
        why_unhashed: why the engines hash no prompts; empty if they do.

    Raises:
        ConfigError: names the key and what to do.
    """
    for name in CONSTANTS:
        value = getattr(config, name)
        if value is None:
            continue
        if not config.enabled:
            raise ConfigError(
                f"frontend.{name}={value:g} has no effect when frontend.enabled=false: leave it "
                "out or set frontend.enabled=true"
            )
        if name == "hash_block_s" and why_unhashed:
            raise ConfigError(
                f"frontend.{name}={value:g} has no effect {why_unhashed}: leave it out"
            )


def front_end_of(config: FrontEndConfig, hashes_prompts: bool) -> FrontEnd | None:
    """The front end with its defaults filled in; None if it is off.

    Args:
        config: the section.
        hashes_prompts: whether the engines hash the blocks of their prompts.
    """
    if not config.enabled:
        return None
    given = {name: getattr(config, name) for name in CONSTANTS}
    front_end = replace(
        DEFAULT_FRONT_END, **{name: value for name, value in given.items() if value is not None}
    )
    return front_end if hashes_prompts else replace(front_end, hash_block_s=0.0)
