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
    "kvrm_mixed": "experiments.studies.kvrm.mixed.KvrmMixed",
    "kvrm_bursty": "experiments.studies.kvrm.bursty.KvrmBursty",
    "feather_learned": "experiments.studies.feather.learned.FeatherLearned",
    "feather_transfer": "experiments.studies.feather.transfer.FeatherTransfer",
    "feather_scheduler_cpu": "experiments.studies.feather.scheduler_cpu.FeatherSchedulerCpu",
    "lmetric_routers": "experiments.studies.lmetric.routers.LmetricRouters",
    "lmetric_indicators": "experiments.studies.lmetric.indicators.LmetricIndicators",
    "lmetric_weights": "experiments.studies.lmetric.weights.LmetricWeights",
    "lmetric_hotspot": "experiments.studies.lmetric.hotspot.LmetricHotspot",
    "lmetric_idle": "experiments.studies.lmetric.idle.LmetricIdle",
    "lmetric_staleness": "experiments.studies.lmetric.staleness.LmetricStaleness",
    "lmetric_overload": "experiments.studies.lmetric.overload.LmetricOverload",
    "lmetric_scaling": "experiments.studies.lmetric.scaling.LmetricScaling",
    "alignedserve_mixes": "experiments.studies.alignedserve.synthetic.AlignedserveMixes",
    "alignedserve_latency": "experiments.studies.alignedserve.latency.AlignedserveLatency",
    "alignedserve_traces": "experiments.studies.alignedserve.traces.AlignedserveTraces",
    "alignedserve_ablation": "experiments.studies.alignedserve.ablation.AlignedserveAblation",
    "alignedserve_pool": "experiments.studies.alignedserve.pool.AlignedservePool",
    "alignedserve_gqa": "experiments.studies.alignedserve.gqa.AlignedserveGqa",
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
