"""What a batch policy says about itself, checked once: the engine relies on it in every step."""

from sim.errors import InvalidDecisionError
from sim.interfaces import BatchPolicy

DECIDES = ("every_step", "on_change")


def check_flags(policy: BatchPolicy) -> None:
    """Refuse flags that are neither one thing nor the other.

    Raises:
        InvalidDecisionError: names the policy, the flag and what is allowed.
    """
    name, decides = type(policy).__name__, getattr(policy, "decides", None)
    if decides not in DECIDES:
        allowed = " and ".join(map(repr, DECIDES))
        raise InvalidDecisionError(name, f"has decides={decides!r}, allowed are {allowed}")
    in_order = getattr(policy, "admits_in_arrival_order", None)
    if not isinstance(in_order, bool):
        raise InvalidDecisionError(
            name, f"has admits_in_arrival_order={in_order!r}, allowed are True and False"
        )
