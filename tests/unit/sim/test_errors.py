"""Errors survive SimPy, which makes them anew from their arguments, and other processes."""

import inspect
import pickle

import pytest

from sim import errors
from sim.errors import FlocksimError, InvalidDecisionError, TraceFormatError

EXAMPLES: dict[str, FlocksimError] = {
    "TraceFormatError": TraceFormatError("a.jsonl", 3, "field 'x' is missing"),
    "InvalidDecisionError": InvalidDecisionError("Lucky", "chose 7 of 3"),
}
CLASSES = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, FlocksimError)
]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_an_error_can_be_made_anew_from_its_args_and_pickled(kind: type[FlocksimError]) -> None:
    error = EXAMPLES.get(kind.__name__) or kind("engine.max_num_seqs=0: must be at least 1")
    for copy in (type(error)(*error.args), pickle.loads(pickle.dumps(error))):
        assert type(copy) is kind
        assert str(copy) == str(error)
        assert copy.args == error.args
        assert vars(copy) == vars(error)


def test_every_error_is_a_flocksim_error() -> None:
    assert {kind.__name__ for kind in CLASSES} >= {
        "ConfigError",
        "TraceFormatError",
        "InvalidDecisionError",
        "CapacityError",
        "CalibrationError",
        "InvariantError",
    }


def test_a_trace_error_says_where() -> None:
    assert str(TraceFormatError("a.jsonl", 3, "no field 'x'")) == "a.jsonl:3: no field 'x'"
    assert str(TraceFormatError("a.jsonl", 0, "is empty")) == "a.jsonl: is empty"


def test_an_invalid_decision_names_the_policy() -> None:
    error = InvalidDecisionError("Lucky", "chose 7 of 3")
    assert str(error) == "policy Lucky: chose 7 of 3"
    assert (error.policy, error.why) == ("Lucky", "chose 7 of 3")
