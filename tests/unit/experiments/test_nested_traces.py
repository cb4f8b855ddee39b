"""Lengths and classes inside the options of a trace: spelled out, checked, and named in errors."""

import functools
import pickle
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from experiments.composing import compose_config
from experiments.job import load_workload
from experiments.schema.job import JobConfig, TraceOptions, read_job
from experiments.schema.lengths import expand_lengths
from sim.errors import ConfigError
from sim.workload import Workload
from tests.conftest import TINY_MOONCAKE
from traces.synthetic.prefix_groups import PrefixGroupsTrace
from traces.synthetic.prefix_tree import PrefixTreeTrace

LONE = "traces.synthetic.independent.SyntheticTrace"
MIX = "traces.synthetic.mix.MixTrace"


def mix_of(**trace: Any) -> JobConfig:
    options = {"_target_": LONE, "num_requests": 4, "rate_per_s": 1.0, "prompt": 7, "output": "1-3"}
    return job_with({"_target_": MIX, "parts": {"a": {"trace": {**options, **trace}}}})


@functools.cache
def packaged() -> dict[str, Any]:
    return compose_config()[0]


@functools.cache
def small_mix(*more: str) -> Workload:
    sizes = ("trace.parts.chat.trace.num_requests=20", "trace.parts.batch.trace.num_requests=20")
    return load_workload(read_job(compose_config(["trace=mix", *sizes, *more])[0]))


def job_with(trace: dict[str, Any]) -> JobConfig:
    config = packaged()
    options = {item.name: config["trace"][item.name] for item in fields(TraceOptions)}
    return read_job({**config, "trace": {**options, **trace}})


def test_an_argument_that_is_a_number_or_a_mapping_keeps_numbers_and_spells_out_ranges() -> None:
    uniform = {"kind": "uniform", "low": 5, "high": 9}
    given = {"prefix_tokens": "5-9", "suffix": "5-9", "arrivals": "5-9", "skew": "5-9"}
    assert expand_lengths(PrefixGroupsTrace, given) == {
        "prefix_tokens": uniform,
        "suffix": uniform,
        "arrivals": "5-9",
        "skew": "5-9",
    }
    given_tree = {"fan_out": [1, 2, 3], "level_tokens": [7, "5-9", {"kind": "fixed", "value": 1}]}
    assert expand_lengths(PrefixTreeTrace, given_tree) == {
        "fan_out": [1, 2, 3],
        "level_tokens": [7, uniform, {"kind": "fixed", "value": 1}],
    }
    assert expand_lengths(PrefixGroupsTrace, {"prefix_tokens": 8}) == {"prefix_tokens": 8}


def test_a_part_of_a_mix_is_built_with_its_short_lengths() -> None:
    job = mix_of()
    assert pickle.loads(pickle.dumps(job)) == job
    workload = load_workload(job)
    assert workload.prompt_tokens.tolist() == [7] * 4
    assert set(workload.output_tokens.tolist()) <= {1, 2, 3}


def test_a_mix_may_be_a_part_of_a_mix() -> None:
    lone = {"_target_": LONE, "num_requests": 4, "rate_per_s": 1.0, "prompt": 7, "output": 2}
    inner = {"_target_": MIX, "parts": {"b": {"trace": lone}}}
    workload = load_workload(job_with({"_target_": MIX, "parts": {"a": {"trace": inner}}}))
    assert workload.tenant is not None
    assert workload.tenant.names == ("b",)
    lone["prompt"] = 0
    with pytest.raises(ConfigError) as caught:
        job_with({"_target_": MIX, "parts": {"a": {"trace": inner}}}).trace.build()
    key = "trace.parts.a.trace.parts.b.trace.prompt.value"
    assert str(caught.value).startswith(f"{key}=0: must be an integer from 1 to 10,000,000")


@pytest.mark.parametrize(
    ("trace", "line"),
    [
        (
            {"no_such": 1},
            "unknown key of trace.parts.a.trace: no_such; allowed: _target_, arrivals",
        ),
        ({"rate_per_s": "x"}, "trace.parts.a.trace.rate_per_s='x': must be a number"),
        ({"_target_": "no.Such"}, "trace.parts.a.trace._target_=no.Such: cannot load this class"),
        (
            {"_target_": "sim.workload.Workload"},
            "trace.parts.a.trace._target_=sim.workload.Workload: must have a method load()",
        ),
        ({"num_requests": 0}, "trace.parts.a.trace.num_requests=0: must be an integer from 1 to"),
        ({"output": "9-3"}, "trace.parts.a.trace.output.high=3: must be an integer from 9 to"),
        ({"arrivals": "x"}, "trace.parts.a.trace.arrivals.kind='x': must be one of poisson"),
    ],
)
def test_a_mistake_in_a_part_is_one_line_that_names_it(trace: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        mix_of(**trace).trace.build()
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_an_option_that_a_part_needs_is_missed() -> None:
    part = {"_target_": LONE, "num_requests": 4}
    with pytest.raises(ConfigError, match=r"^trace\.parts\.a\.trace\.rate_per_s is missing: "):
        job_with({"_target_": MIX, "parts": {"a": {"trace": part}}})


class Unlucky:
    """A class that is not ours."""

    def __init__(self, size: int) -> None:
        raise ValueError("un\nlucky")

    def load(self, seed: int) -> None: ...


def test_a_constructor_of_somebody_else_is_quoted() -> None:
    target = f"{__name__}.Unlucky"
    job = job_with({"_target_": MIX, "parts": {"a": {"trace": {"_target_": target, "size": 1}}}})
    with pytest.raises(ConfigError) as caught:
        job.trace.build()
    assert str(caught.value) == (
        f"trace.parts.a.trace: cannot build {target}: ValueError: un lucky"
    )


@pytest.mark.parametrize(
    ("override", "column"),
    [
        ("trace.parts.chat.trace.rate_per_s=50", "arrival_s"),
        ("trace.parts.chat.trace.user=5-9", "prompt_tokens"),
        ("trace.parts.batch.start_s=9", "arrival_s"),
        ("trace.parts.batch.priority=5", "priority"),
        ("trace.parts.batch.trace.arrivals=constant", "arrival_s"),
    ],
)
def test_every_option_of_the_packaged_mix_can_be_set(override: str, column: str) -> None:
    before, after = small_mix(), small_mix(override)
    assert getattr(before, column).tolist() != getattr(after, column).tolist()


def test_another_kind_of_trace_can_be_added_to_the_packaged_mix() -> None:
    more = ["+trace@trace.parts.more.trace=synthetic", "trace.parts.more.trace.num_requests=5"]
    workload = small_mix(*more)
    assert workload.num_requests == 45
    assert workload.tenant is not None
    assert set(workload.tenant.names) == {"chat", "batch", "more"}


def test_a_part_of_the_packaged_mix_may_become_another_kind_or_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(TINY_MOONCAKE)
    overrides = [
        "trace=mix",
        "trace@trace.parts.chat.trace=synthetic",
        "trace.parts.chat.trace.num_requests=7",
        "trace.parts.chat.trace.prompt=33",
        "trace@trace.parts.batch.trace=mooncake",
        f"trace.parts.batch.trace.path={path}",
    ]
    workload = load_workload(read_job(compose_config(overrides)[0]))
    assert workload.num_requests == 7 + 5
    assert (workload.prompt_tokens == 33).sum() == 7
    assert workload.tenant is not None
    assert set(workload.tenant.names) == {"chat", "batch"}


def test_a_part_of_the_packaged_mix_can_be_left_out() -> None:
    config = compose_config(["trace=mix", "~trace.parts.batch"])[0]
    assert set(config["trace"]["parts"]) == {"chat"}
