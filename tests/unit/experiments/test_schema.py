"""Strict reading of configuration values, sections and classes."""

from dataclasses import dataclass
from typing import Any

import pytest

from experiments.policy_errors import PolicyError
from experiments.schema.checks import (
    checked,
    flag,
    number,
    one_of,
    optional,
    period,
    text,
    whole,
    window,
)
from experiments.schema.lengths import expand_lengths
from experiments.schema.plugin import Plugin, read_plugin
from experiments.schema.section import as_mapping, build_section
from experiments.schema.suggest import unknown_name
from sim.errors import ConfigError
from traces.synthetic.independent import SyntheticTrace


@dataclass(frozen=True, kw_only=True)
class Sizes:
    num_seats: int = checked(whole(1))
    share_ratio: float = checked(number(above=0, high=1))


class Thing:
    """What `read_plugin` reads below."""

    def __init__(self, size: int, name: str | None = None, rate: float = 1.0) -> None:
        if size == 13:
            raise ValueError("unlucky")
        self.size, self.name, self.rate = size, name, rate

    def act(self) -> None: ...


HERE = f"{__name__}.Thing"


def test_values_of_the_right_type_and_range_pass() -> None:
    assert whole(1)("k", 1) == 1
    assert number()("k", 0) == 0.0
    assert isinstance(number()("k", 3), float)
    assert flag("k", False) is False
    assert text("k", "a") == "a"
    assert one_of("a", "b")("k", "b") == "b"
    assert optional(whole(1))("k", None) is None
    assert whole(1, 5)("k", 5) == 5
    assert period(0.1)("k", 0) == 0.0
    assert period(0.1)("k", 0.1) == 0.1
    assert window("k", 5) == 5.0
    assert window("k", [2, 5]) == (2.0, 5.0)


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (whole(1), 0),
        (whole(1), True),
        (whole(1), 2.0),
        (whole(1), "2"),
        (whole(1, 5), 6),
        (period(0.1), 0.01),
        (period(0.1), -1),
        (period(0.1), False),
        (number(), -1),
        (number(), float("nan")),
        (number(), float("inf")),
        (number(), "1"),
        (number(above=0), 0),
        (number(high=1), 1.01),
        (number(), True),
        (flag, 1),
        (flag, "true"),
        (text, ""),
        (text, 3),
        (one_of("a"), "b"),
        (optional(whole(1)), 0),
        (window, 0),
        (window, [5, 5]),
        (window, [-1, 5]),
        (window, [1, 2, 3]),
        (window, "5"),
    ],
)
def test_other_values_are_refused_with_key_and_value(check: Any, value: object) -> None:
    with pytest.raises(ConfigError, match=r"^a\.b.*: must be"):
        check("a.b", value)


def test_a_section_is_built_from_exactly_its_keys() -> None:
    sizes = build_section(Sizes, "s", {"num_seats": 2, "share_ratio": 1})
    assert sizes == Sizes(num_seats=2, share_ratio=1.0)
    with pytest.raises(ConfigError, match=r"s\.share_ratio is missing"):
        build_section(Sizes, "s", {"num_seats": 2})
    with pytest.raises(ConfigError, match=r"key of s: num_seat \(did you mean num_seats\?\)"):
        build_section(Sizes, "s", {"num_seats": 2, "share_ratio": 1, "num_seat": 3})


def test_a_section_must_be_a_mapping() -> None:
    with pytest.raises(ConfigError, match="s=3: must be a section"):
        as_mapping("s", 3)


def test_unknown_names_list_what_is_allowed() -> None:
    line = unknown_name("option", "jqs", ["random", "jsq"], "routing=jqs")
    assert line == "unknown option: routing=jqs (did you mean jsq?); allowed: jsq, random"
    assert unknown_name("key", "x", []) == "unknown key: x; allowed: nothing"


def test_a_plugin_is_built_from_its_options() -> None:
    plugin = read_plugin("p", {"_target_": HERE, "size": 3, "name": None}, method="act")
    thing = plugin.build(rate=2.0)
    assert (thing.size, thing.name, thing.rate) == (3, None, 2.0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"size": 1}, "p._target_ is missing"),
        ({"_target_": "nowhere.Thing"}, "cannot load this class: No module named 'nowhere'"),
        ({"_target_": f"{__name__}.HERE"}, "must be a class"),
        ({"_target_": f"{__name__}.Sizes"}, r"must have a method act\(\)"),
        ({"_target_": HERE}, "p.size is missing"),
        ({"_target_": HERE, "size": 1, "siez": 2}, r"p: siez \(did you mean size\?\)"),
        ({"_target_": HERE, "size": "x"}, "p.size='x': must be an integer"),
        ({"_target_": HERE, "size": True}, "p.size=True: must be an integer"),
        ({"_target_": HERE, "size": 1, "name": 2}, "p.name=2: must be a text or null"),
        ({"_target_": HERE, "size": 1, "rate": "f"}, "p.rate='f': must be a number"),
    ],
)
def test_a_plugin_that_cannot_be_built_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_plugin("p", values, method="act")


def test_a_constructor_that_refuses_is_quoted() -> None:
    plugin = read_plugin("p", {"_target_": HERE, "size": 13}, method="act")
    with pytest.raises(PolicyError, match=r"policy Thing raised ValueError: unlucky \(.*py:\d+"):
        plugin.build()
    ours = Plugin(key="p", target="sim.cluster_spec.ClusterSpec", options={"no": 1})
    with pytest.raises(ConfigError, match=r"p: cannot build .*ClusterSpec: TypeError"):
        ours.build()


def test_short_lengths_are_spelled_out_for_arguments_that_are_mappings() -> None:
    given = {"num_requests": 5, "prompt": 7, "output": "1-8"}
    assert expand_lengths(SyntheticTrace, given) == {
        "num_requests": 5,
        "prompt": {"kind": "fixed", "value": 7},
        "output": {"kind": "uniform", "low": 1, "high": 8},
    }
    mapping = {"prompt": {"kind": "fixed", "value": 7}, "output": "x-8"}
    assert expand_lengths(SyntheticTrace, mapping) == mapping
