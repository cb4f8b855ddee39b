"""Every YAML of every group composes, is read strictly, and builds."""

import pickle

import pytest

from experiments.composing import GROUPS, compose_config
from experiments.deployment import build_deployment
from experiments.schema.job import read_job
from hwmodels.device import available_profiles
from hwmodels.model_catalogue import available_models
from sim.errors import ConfigError
from tests.contract.options import OPTIONS, composed, options_in


@pytest.mark.parametrize(("group", "option"), OPTIONS)
def test_an_option_composes_reads_builds_and_pickles(group: str, option: str) -> None:
    job = read_job(composed(group, option))
    assert pickle.loads(pickle.dumps(job)) == job
    assert build_deployment(job).spec.num_gpu_blocks >= 2
    for plugin in job.plugins:
        if plugin.key != "engine":
            assert type(plugin.build()).__module__ in plugin.target


@pytest.mark.parametrize(("group", "option"), OPTIONS)
def test_an_option_refuses_an_unknown_key(group: str, option: str) -> None:
    config = composed(group, option)
    config[group]["no_such_key"] = 1
    with pytest.raises(ConfigError, match=f"unknown key of {group}: no_such_key"):
        read_job(config)


@pytest.mark.parametrize(("group", "option"), OPTIONS)
def test_every_key_of_an_option_is_read(group: str, option: str) -> None:
    """A value of an impossible type is refused, so no key is accepted and ignored."""
    config = composed(group, option)
    for key in config[group]:
        broken = {**config, group: {**config[group], key: {"impossible": object}}}
        with pytest.raises(ConfigError):
            job = read_job(broken)
            build_deployment(job)
            job.trace.build()


def test_every_catalogued_model_and_profile_has_an_option() -> None:
    assert set(options_in("model")) == {*available_models(), "hf"}
    assert set(options_in("hardware")) == {*available_profiles(), "from_file"}


@pytest.mark.parametrize("option", options_in("model"))
def test_an_option_of_a_model_names_that_model(option: str) -> None:
    job = read_job(composed("model", option))
    assert job.model.name == (None if option == "hf" else option)


def test_the_chosen_options_are_reported() -> None:
    _, choices = compose_config(["routing=jsq", "trace=sessions"])
    assert (choices["routing"], choices["trace"], choices["batching"]) == (
        "jsq",
        "sessions",
        "fcfs",
    )
    assert set(choices) == set(GROUPS)


def test_without_arguments_it_is_llama3_8b_on_four_a100() -> None:
    job = read_job(compose_config()[0])
    deployment = build_deployment(job)
    assert deployment.shape.name == "llama3_8b"
    assert deployment.device.name == "a100_sxm_80gb"
    assert deployment.spec.num_instances == 4
    assert (job.slo.ttft_s, job.slo.tpot_s) == (2.0, 0.1)
