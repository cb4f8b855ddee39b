"""The transforms as keys of a job."""

from dataclasses import fields
from importlib.resources import files
from typing import Any

import pytest
from omegaconf import OmegaConf

from experiments.composing import compose_config
from experiments.job import load_workload, simulate_job
from experiments.results.json_text import json_text
from experiments.schema.job import TraceOptions, read_job, read_trace
from sim.errors import ConfigError
from tests.conftest import TINY
from traces.transforms import Transforms


def composed(*overrides: str) -> dict[str, Any]:
    return compose_config([*TINY, *overrides])[0]


def test_the_options_of_a_job_are_the_transforms_in_their_order() -> None:
    names = [item.name for item in fields(Transforms)]
    assert [item.name for item in fields(TraceOptions)] == names
    text = (files("experiments.conf") / "config.yaml").read_text()
    config: Any = OmegaConf.create(text)
    listed = config["trace"]
    assert [name for name in listed if name in names] == names
    defaults = Transforms()
    assert all(listed[name] == getattr(defaults, name) for name in names)


def test_transforms_reach_the_workload() -> None:
    job = read_job(composed("trace.copies=3", "trace.max_output_tokens=7", "trace.limit=10"))
    workload = load_workload(job)
    assert workload.num_requests == 30
    assert workload.output_tokens.max() == 7
    assert list(workload.provenance["transforms"]) == [
        "limit",
        "max_output_tokens",
        "num_outputs_cut",
        "copies",
    ]


def test_the_seed_of_the_job_is_that_of_the_transforms() -> None:
    one, two = (read_job(composed("trace.sample=0.5", f"seed={seed}")) for seed in (1, 2))
    done = [load_workload(job).provenance["transforms"]["sample"] for job in (one, two)]
    assert done == [{"share": 0.5, "seed": 1}, {"share": 0.5, "seed": 2}]


def test_anonymised_requests_give_the_same_figures() -> None:
    base = ("trace=sessions", "trace.num_requests=40", "trace.system_prompt_tokens=64")
    plain, hidden = (
        json_text(simulate_job(*compose_config([*base, *more])).metrics)
        for more in ((), ("trace.anonymise=true",))
    )
    assert plain == hidden


def test_a_section_without_transforms_does_nothing_to_its_trace() -> None:
    section = {key: composed()["trace"][key] for key in ("_target_", *OWN, *MANDATORY)}
    assert read_trace({"trace": section})[1] == read_trace({"trace": composed()["trace"]})[1]
    for key in MANDATORY:
        missing = {name: value for name, value in section.items() if name != key}
        with pytest.raises(ConfigError, match=f"trace.{key} is missing"):
            read_trace({"trace": missing})


OWN = ("num_requests", "rate_per_s", "prompt", "output")
MANDATORY = ("window_s", "limit", "rate_scale")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("trace.sample=0", "trace.sample=0: must be a finite number > 0 and <= 1"),
        ("trace.copies=0.5", "trace.copies=0.5: must be an integer >= 1"),
        (
            "trace.copy_offsets=odd",
            "trace.copy_offsets='odd': must be one of random, even, or null",
        ),
        ("trace.copy_offsets=even", "trace.copy_offsets=even has no effect: trace.copies is 1"),
        ("trace.anonymise=1", "trace.anonymise=1: must be true or false"),
        ("trace.max_prompt_tokens=-1", "must be an integer >= 1, or null"),
        ("trace.replay_think_time_s=1", "has no effect: trace.replay_concurrency is not given"),
        ("trace.scale_prompt=1e-9", "trace.scale_prompt=1e-09: must be a finite number >= 1e-06"),
    ],
)
def test_bad_transforms_are_one_line(override: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_job(composed(override))
    assert message in str(caught.value)
