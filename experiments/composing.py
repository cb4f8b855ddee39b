"""Composes the configuration of a job outside a Hydra application (tests, programs, the demo)."""

from collections.abc import Sequence
from typing import Any

CONFIG_MODULE = "experiments.conf"
CONFIG_NAME = "config"

GROUPS = (
    "trace",
    "model",
    "hardware",
    "kernel",
    "cluster",
    "engine",
    "executor",
    "batching",
    "routing",
    "eviction",
    "admission",
)
"""Config groups, in the order in which they are shown."""

EXPERIMENT = "experiment"
"""Group of the studies: chosen in place of a job, never a part of one."""


def compose_config(
    overrides: Sequence[str] = (), *, are_all_set: bool = True
) -> tuple[dict[str, Any], dict[str, str]]:
    """Compose and resolve a configuration.

    Args:
        overrides: as on the command line, for example ``["routing=random", "seed=1"]``.
        are_all_set: refuse mandatory values that are not set.

    Returns:
        The configuration as plain containers, and the chosen option of each group.
    """
    from hydra import compose, initialize_config_module

    with initialize_config_module(CONFIG_MODULE, version_base="1.3"):
        composed = compose(CONFIG_NAME, list(overrides), return_hydra_config=True)
    choices = composed.hydra.runtime.choices
    plain = resolved(composed, are_all_set=are_all_set)
    return plain, chosen_options(choices)


def resolved(config: Any, *, are_all_set: bool = True) -> dict[str, Any]:
    """Plain containers with every interpolation resolved; a value that is not set is an error.

    Raises:
        omegaconf.OmegaConfBaseException: an interpolation fails or a mandatory value is missing.
    """
    from omegaconf import OmegaConf

    hydra_free = config.copy()
    if "hydra" in hydra_free:
        OmegaConf.set_struct(hydra_free, False)
        hydra_free.pop("hydra")
    plain: Any = OmegaConf.to_container(hydra_free, resolve=True, throw_on_missing=are_all_set)
    return dict(plain)


def chosen_options(choices: Any) -> dict[str, str]:
    """Chosen option of each group of a job, also of groups that a search path adds."""
    ours = (group for group in sorted(choices) if "hydra/" not in group and group != EXPERIMENT)
    return {group: str(choices[group]) for group in ours}
