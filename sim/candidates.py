"""What a batch policy offers for admission, and what is wrong with it."""

from collections.abc import Iterable, Iterator
from typing import Any

from sim.errors import InvalidDecisionError
from sim.instance import Instance
from sim.interfaces import BatchPolicy


def iterate_candidates(policy: BatchPolicy, candidates: Iterable[object]) -> Iterator[Any]:
    """The requests that a policy offers, if they are such.

    Raises:
        InvalidDecisionError: it offered something else.
    """
    try:
        return iter(candidates)
    except TypeError:
        raise InvalidDecisionError(
            type(policy).__name__, f"candidates() returned {candidates!r}, not requests"
        ) from None


def not_waiting(instance: Instance, request: object) -> InvalidDecisionError:
    """The error of a policy that chose what does not wait."""
    return InvalidDecisionError(
        type(instance.policy).__name__,
        f"chose {request!r}, which is not a request waiting on instance {instance.instance_id}",
    )
