"""The studies by name; one is imported when it is asked for."""

from importlib import import_module

from experiments.schema.suggest import unknown_name
from experiments.studies.base import Study
from sim.errors import ConfigError

_TARGETS = {
    "validate_vllm_a100": "experiments.studies.vllm_a100.study.ValidateVllmA100",
    "validate_ada_cascade": "experiments.studies.ada_cascade.study.ValidateAdaCascade",
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
