"""How classes are built, whether they are compiled or not."""

import inspect
import sys

import pytest

from experiments.schema import constructor
from experiments.schema.constructor import constructor_hints, constructor_signature
from policies.routing.lmetric import LMetric
from sim.sglang import MAX_PREFILL_TOKENS, Sglang
from sim.vllm_v1 import VllmV1


class Subclass(VllmV1):
    """With the constructor of its base."""


@pytest.mark.parametrize("found", [VllmV1, Subclass])
def test_an_engine_says_what_it_is_built_with(found: type) -> None:
    assert constructor_hints(found) == {
        "max_num_seqs": int,
        "max_num_batched_tokens": int,
        "async_scheduling": bool,
        "return": type(None),
    }
    parameters = constructor_signature(found).parameters
    assert list(parameters) == ["max_num_seqs", "max_num_batched_tokens", "async_scheduling"]
    assert parameters["max_num_seqs"].default is inspect.Parameter.empty
    assert parameters["async_scheduling"].default is False


def test_defaults_that_are_names_are_known() -> None:
    parameters = constructor_signature(Sglang).parameters
    assert parameters["max_prefill_tokens"].default == MAX_PREFILL_TOKENS
    assert constructor_hints(Sglang)["schedule_conservativeness"] is float


def test_a_policy_of_python_is_asked_itself() -> None:
    assert constructor_signature(LMetric) == inspect.signature(LMetric)
    assert constructor_hints(LMetric)["plus_one"] is bool


def test_other_callables_have_a_signature_too() -> None:
    def build(size: int = 3) -> VllmV1:
        return VllmV1(size, size)

    assert list(constructor_signature(build).parameters) == ["size"]
    assert "size" not in constructor_hints(build)


def test_the_source_says_the_same_as_the_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a class of plain Python were compiled."""
    module = sys.modules[LMetric.__module__]
    plain, hints = inspect.signature(LMetric), constructor_hints(LMetric)
    monkeypatch.setattr(constructor, "is_compiled", lambda name: name == module.__name__)
    found = constructor_signature(LMetric)
    assert [(p.name, p.kind, p.default) for p in found.parameters.values()] == [
        (p.name, p.kind, p.default) for p in plain.parameters.values()
    ]
    assert constructor_hints(LMetric) == hints


def test_a_name_that_nobody_knows_gives_no_hints() -> None:
    class Unclear:
        def __init__(self, size: "Nowhere") -> None:  # type: ignore[name-defined] # noqa: F821
            self.size = size

    assert constructor_hints(Unclear) == {}
    assert list(constructor_signature(Unclear).parameters) == ["size"]
