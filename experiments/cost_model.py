"""From a checked configuration to the cost model of its instances: the ladder of fidelity.

`roofline` knows peaks, `calibrated` fitted kernels, `calibrated_l2` also what shared prefixes save
in L2, and `table` corrects all of that by measured points.
"""

from dataclasses import asdict
from typing import Any

from experiments.schema.job import JobConfig, KernelConfig
from hwmodels.attention.choice import KernelChoice
from hwmodels.calibrated import CalibratedCost
from hwmodels.device import DeviceSpec
from hwmodels.executors.executor import KernelCost
from hwmodels.model_shape import ModelShape
from hwmodels.roofline import RooflineCost
from sim.errors import ConfigError

ENGINE_KERNELS = {"sim.sglang.Sglang": "flashinfer"}
"""Attention kernel of engines whose steps either prefill or decode; all others run flash.

Source: SGLang's default attention backend on GPUs before Hopper, vLLM's FlashAttention."""


_NUM_GPUS = "num_gpus must be"


def kernel_choice(kernel: KernelConfig, engine: str) -> KernelChoice:
    """The kernel of a job, with what was not given filled in.

    Args:
        kernel: what was given.
        engine: target of the engine.

    Raises:
        ConfigError: an option is unknown or means nothing with that kernel.
    """
    given: dict[str, Any] = {key: value for key, value in asdict(kernel).items() if value}
    given.setdefault("name", ENGINE_KERNELS.get(engine, "flash"))
    never_mixes = engine in ENGINE_KERNELS
    if never_mixes and "mixed_batch" in given:
        raise ConfigError(
            f"kernel.mixed_batch={given['mixed_batch']} has no effect: this engine never decodes "
            "and prefills in one step"
        )
    has_variants = given["name"] in ("flash", "flash_cascade")
    if has_variants and not never_mixes:
        given.setdefault("mixed_batch", "fused_varlen")
    choice = KernelChoice(**given)
    for key in ("family", "mixed_batch"):
        if key in given and not choice.has_decode_form:
            raise ConfigError(
                f"kernel.{key}={given[key]} has no effect: kernel.name={choice.name} has but one"
            )
    return choice


def cost_model(config: JobConfig, device: DeviceSpec, shape: ModelShape) -> KernelCost:
    """The cost model that the job asks for.

    Raises:
        ConfigError: the device lacks a kernel, the model does not split over the GPUs, or an option
            of the kernel would have no effect.
    """
    fidelity, choice = config.hardware.fidelity, kernel_choice(config.kernel, config.engine.target)
    _refuse_idle_options(fidelity, config.kernel, choice)
    num_gpus = config.cluster.tensor_parallel
    if fidelity == "roofline":
        return RooflineCost(device, shape, num_gpus)
    try:
        return CalibratedCost(
            device,
            shape,
            num_gpus,
            kernel=choice,
            uses_l2=fidelity != "calibrated",
            block_tokens=config.engine_options.block_tokens,
        )
    except ConfigError as error:
        # The size of an all-reduce is one that the user knows by another name.
        text = str(error).replace(_NUM_GPUS, "cluster.tensor_parallel must be")
        raise ConfigError(text) from error


def _refuse_idle_options(fidelity: str, given: KernelConfig, choice: KernelChoice) -> None:
    """Refuse options of the kernel that nothing would read."""
    if fidelity == "roofline":
        for name, value in asdict(given).items():
            if value is not None:
                raise ConfigError(
                    f"kernel.{name}={value} has no effect: hardware.fidelity=roofline knows no "
                    "kernels; choose calibrated_l2 or leave it out"
                )
    why = ""
    if fidelity == "calibrated":
        why = "hardware.fidelity=calibrated has no L2"
    elif choice.name == "packed":
        why = "kernel.name=packed reads every node once"
    if why and given.member_order is not None:
        raise ConfigError(f"kernel.member_order={given.member_order} has no effect: {why}")
