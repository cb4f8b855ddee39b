"""Mixes: each part is what it is alone, labelled; mistakes name the part."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim.errors import ConfigError
from traces.build import build_workload
from traces.synthetic.independent import SyntheticTrace
from traces.synthetic.mix import MixTrace, part_seed
from traces.synthetic.prefix_groups import PrefixGroupsTrace
from traces.synthetic.sessions import SessionsTrace

Parts = dict[str, dict[str, Any]]

UNIFORM = {"kind": "uniform", "low": 1, "high": 50}


def chat(**changes: Any) -> SessionsTrace:
    options = {"num_sessions": 30, "rate_per_s": 3.0, "turns": {"kind": "fixed", "value": 3}}
    return SessionsTrace(user=UNIFORM, output=UNIFORM, **{**options, **changes})


def batch(**changes: Any) -> PrefixGroupsTrace:
    options = {"num_requests": 40, "rate_per_s": 2.0, "num_groups": 3, "prefix_tokens": 99}
    return PrefixGroupsTrace(suffix=UNIFORM, output=UNIFORM, **{**options, **changes})


def lone(**changes: Any) -> SyntheticTrace:
    options = {"num_requests": 20, "rate_per_s": 1.0, "prompt": UNIFORM, "output": UNIFORM}
    return SyntheticTrace(**{**options, **changes})


def test_each_part_is_the_trace_it_would_be_alone_with_its_own_seed() -> None:
    parts: Parts = {"chat": {"trace": chat()}, "batch": {"trace": batch(), "start_s": 2.5}}
    mixed = MixTrace(parts=parts).load(7)
    assert mixed.tenant is not None
    assert mixed.num_requests == 130
    assert (np.diff(mixed.arrival_s) >= 0).all()
    for code, name in enumerate(("chat", "batch")):
        assert mixed.tenant.names[code] == name
        rows = np.flatnonzero(mixed.tenant.codes == code)
        alone = parts[name]["trace"].load(part_seed(7, name))
        start_s = parts[name].get("start_s", 0.0)
        assert mixed.arrival_s[rows].tolist() == (alone.arrival_s + start_s).tolist()
        assert mixed.prompt_tokens[rows].tolist() == alone.prompt_tokens.tolist()
        assert mixed.output_tokens[rows].tolist() == alone.output_tokens.tolist()


def test_another_part_changes_no_row_of_the_others() -> None:
    few = MixTrace(parts={"a": {"trace": lone()}}).load(7)
    more = MixTrace(parts={"b": {"trace": lone()}, "a": {"trace": lone()}}).load(7)
    assert more.tenant is not None
    of_a = more.tenant.codes == more.tenant.names.index("a")
    for name in ("arrival_s", "prompt_tokens", "output_tokens"):
        assert getattr(more, name)[of_a].tolist() == getattr(few, name).tolist()
        assert getattr(more, name)[~of_a].tolist() != getattr(few, name).tolist()


def test_the_seed_of_a_part_depends_on_the_seed_and_on_its_name() -> None:
    seeds = {part_seed(seed, name) for seed in (0, 1) for name in ("a", "b")}
    assert len(seeds) == 4
    assert part_seed(1, "a") in seeds


def test_labels_of_a_part() -> None:
    parts: Parts = {
        "a": {"trace": lone(), "tenant": "acme", "slo_class": "fast", "priority": 2},
        "b": {"trace": lone(), "tenant": None, "slo_class": None, "priority": None},
    }
    mixed = MixTrace(parts=parts).load(1)
    assert mixed.tenant is not None
    assert mixed.slo_class is not None
    assert mixed.priority is not None
    rows = range(40)
    named = {
        (mixed.tenant.name_of(row), mixed.slo_class.name_of(row), int(mixed.priority[row]))
        for row in rows
    }
    assert named == {("acme", "fast", 2), ("b", None, 0)}


def test_a_part_keeps_the_labels_that_it_has() -> None:
    inner = MixTrace(parts={"x": {"trace": lone()}, "y": {"trace": lone()}})
    mixed = MixTrace(parts={"both": {"trace": inner}, "warm": {"trace": batch(warm_start_s=1.0)}})
    table = mixed.load(1)
    assert table.tenant is not None
    assert set(table.tenant.names) == {"x", "y", "warm"}
    assert table.slo_class is not None
    assert table.slo_class.names == ("warm_start",)
    assert (table.slo_class.codes == 0).sum() == 3


def test_chains_of_a_part_survive_and_the_workload_is_valid() -> None:
    parts: Parts = {
        "batch": {"trace": batch()},
        "chat": {"trace": chat(closed_loop=True, steady=False)},
    }
    workload = build_workload(MixTrace(parts=parts), seed=3)
    assert workload.after is not None
    assert workload.delay_s is not None
    assert workload.parent_id is not None
    assert workload.after.tolist() == workload.parent_id.tolist()
    follow_up = workload.after >= 0
    assert follow_up.sum() == 60
    assert (workload.delay_s[follow_up] > 0).all()
    assert workload.session_id is not None
    tenants = workload.tenant
    assert tenants is not None
    in_session = np.flatnonzero(workload.session_id >= 0).tolist()
    assert {tenants.name_of(row) for row in in_session} == {"chat"}


def test_provenance_tells_labels_and_the_source_of_each_part() -> None:
    parts: Parts = {"a": {"trace": lone(), "priority": 1}, "b": {"trace": batch()}}
    provenance = MixTrace(parts=parts).load(5).provenance
    assert provenance["format"] == "mix"
    assert (provenance["seed"], provenance["num_rows"]) == (5, 60)
    assert provenance["options"] == {"parts": {"a": {"priority": 1}, "b": {}}}
    assert provenance["parts"]["b"]["format"] == "prefix_groups"
    assert provenance["parts"]["a"]["seed"] == part_seed(5, "a")


class Failing:
    """A part that cannot be loaded."""

    def __init__(self, line: str) -> None:
        self.line = line

    def load(self, seed: int) -> Any:
        raise ConfigError(self.line)


@pytest.mark.parametrize(
    ("part", "line"),
    [
        (
            {"trace": chat(arrivals={"kind": "closed_loop", "concurrency": 9}, closed_loop=True)},
            "trace.parts.x.trace: has a fixed concurrency (9 users), and its requests no times of",
        ),
        ({"trace": Failing("trace.size=1: no")}, "trace.parts.x.trace.size=1: no"),
        ({"trace": Failing("trace: no")}, "trace.parts.x.trace: no"),
        ({"trace": Failing("seed=1: no")}, "trace.parts.x.trace: seed=1: no"),
    ],
)
def test_a_part_that_cannot_be_loaded_is_named(part: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        MixTrace(parts={"ok": {"trace": lone()}, "x": part}).load(1)
    assert str(caught.value).startswith(line)


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        ({}, "trace.parts={}: must be a section of named parts"),
        (None, "trace.parts=None: must be a section of named parts"),
        ({1: {"trace": lone()}}, "trace.parts: name 1 of a part must be a text"),
        ({"x": lone()}, "trace.parts.x=SyntheticTrace("),
        ({"x": {}}, "trace.parts.x has nothing: kind part needs trace; optional tenant, slo_class"),
        ({"x": {"trace": lone(), "rate": 1}}, "trace.parts.x has rate, trace: kind part needs"),
        (
            {"x": {"trace": {"num_requests": 1}}},
            "trace.parts.x.trace={'num_requests': 1}: must be a section with _target_ that names",
        ),
        ({"x": {"trace": lone(), "tenant": 1}}, "trace.parts.x.tenant=1: must be a text or null"),
        ({"x": {"trace": lone(), "slo_class": " "}}, "trace.parts.x.slo_class=' ': must be a text"),
        ({"x": {"trace": lone(), "priority": 0.5}}, "trace.parts.x.priority=0.5: must be an int"),
        ({"x": {"trace": lone(), "start_s": -1}}, "trace.parts.x.start_s=-1: must be a finite"),
    ],
)
def test_bad_parts_are_one_line(parts: Any, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        MixTrace(parts=parts)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_files_may_be_parts(tmp_path: Path) -> None:
    from traces.readers.azure import AzureTrace

    path = tmp_path / "trace.csv"
    path.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:46.0000000,374,44\n"
        "2023-11-16 18:15:47.5000000,10,4\n"
    )
    source = AzureTrace(path=str(path))
    mixed = MixTrace(parts={"a": {"trace": source}, "b": {"trace": source, "start_s": 1.0}}).load(0)
    assert mixed.arrival_s.tolist() == [0.0, 1.0, 1.5, 2.5]
    assert mixed.prompt_tokens.tolist() == [374, 374, 10, 10]
    assert mixed.provenance["parts"]["a"]["sha256"] is not None
