"""What a batch policy offers for admission, and what is wrong with it."""

from collections.abc import Iterable, Iterator

from sim.errors import InvalidDecisionError
from sim.instance import Instance
from sim.interfaces import BatchPolicy
from sim.request import Request


def iterate_candidates(policy: BatchPolicy, candidates: Iterable[Request]) -> Iterator[Request]:
    """The requests that a policy offers.

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
