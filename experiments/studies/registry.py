"""The studies by name; one is imported when it is asked for."""

from importlib import import_module

from experiments.schema.suggest import unknown_name
from experiments.studies.base import Study
from sim.errors import ConfigError

_TARGETS = {
    "validate_vllm_a100": "experiments.studies.vllm_a100.study.ValidateVllmA100",
    "validate_ada_cascade": "experiments.studies.ada_cascade.study.ValidateAdaCascade",
    "feather_standard": "experiments.studies.feather.standard.FeatherStandard",
    "feather_attribution": "experiments.studies.feather.attribution.FeatherAttribution",
    "feather_groups": "experiments.studies.feather.groups.FeatherGroups",
    "feather_prefix": "experiments.studies.feather.prefix.FeatherPrefix",
    "feather_output": "experiments.studies.feather.output.FeatherOutput",
    "feather_no_sharing": "experiments.studies.feather.no_sharing.FeatherNoSharing",
    "feather_deviating": "experiments.studies.feather.deviating.FeatherDeviating",
    "feather_one_prefix": "experiments.studies.feather.one_prefix.FeatherOnePrefix",
    "feather_models": "experiments.studies.feather.models.FeatherModels",
    "feather_load": "experiments.studies.feather.rate.FeatherLoad",
    "feather_chunk": "experiments.studies.feather.chunk.FeatherChunk",
    "feather_reward": "experiments.studies.feather.reward.FeatherReward",
    "feather_midpoint": "experiments.studies.feather.midpoint.FeatherMidpoint",
    "feather_a100": "experiments.studies.feather.packed.FeatherA100",
    "feather_splits": "experiments.studies.feather.splits.FeatherSplits",
}

STUDIES = tuple(_TARGETS)
"""Names of all studies, in the order in which they are listed."""


def study_named(name: str) -> Study:
    """A study.

    Raises:
        ConfigError: there is none of that name.
    """
    if name not in _TARGETS:
        raise ConfigError(unknown_name("study", name, STUDIES))
    module, _, attribute = _TARGETS[name].rpartition(".")
    study: Study = getattr(import_module(module), attribute)()
    return study
