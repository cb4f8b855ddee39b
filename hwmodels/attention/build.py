"""From a device and a choice of kernel to what prices the attention of a model."""

from hwmodels.attention.choice import KernelChoice
from hwmodels.attention.flash import FlashPricer
from hwmodels.attention.oblivious import ObliviousPricer
from hwmodels.attention.packed_pricer import PackedPricer
from hwmodels.attention.prefill_pricer import PrefillPricer
from hwmodels.attention.pricer import AttentionPricer
from hwmodels.device import DeviceSpec
from hwmodels.mixed_pricer import MixedPricer
from hwmodels.model_shape import ModelShape


def attention_pricer(
    device: DeviceSpec,
    shard: ModelShape,
    choice: KernelChoice,
    *,
    uses_l2: bool,
    block_tokens: int,
) -> AttentionPricer:
    """What prices the attention of a model.

    Args:
        device: the GPU; needs the kernels of `kernels_needed`.
        shard: the part of the model that the GPU holds.
        choice: the kernel.
        uses_l2: whether shared prefixes hit in L2.
        block_tokens: tokens of a KV block.

    Raises:
        ConfigError: the device lacks a kernel.
    """
    needed = kernels_needed(choice, uses_l2=uses_l2)
    for name in needed:
        device.kernel(name)
    models = device.kernels
    assert models.prefill_attention is not None
    prefill = PrefillPricer(models.prefill_attention, shard)
    shared = models.shared_prefix if "shared_prefix" in needed else None
    l2 = models.l2 if uses_l2 else None
    if choice.has_decode_form:
        decode, mixed = models.decode_attention, None
        assert decode is not None
        if choice.mixed_batch == "fused_varlen":
            assert models.mixed_attention is not None
            mixed = MixedPricer(models.mixed_attention, decode, models.prefill_attention, shard)
        return FlashPricer(decode, prefill, mixed, shared, l2, shard, choice, block_tokens)
    assert shared is not None
    if choice.name == "packed":
        return PackedPricer(prefill, shared.packed, shard)
    return ObliviousPricer(prefill, shared, l2, shard, choice)


def kernels_needed(choice: KernelChoice, *, uses_l2: bool) -> list[str]:
    """Kernels that price attention, by their fields of `KernelModels`."""
    names = ["prefill_attention"]
    if choice.has_decode_form:
        names.append("decode_attention")
        names += ["mixed_attention"] if choice.mixed_batch == "fused_varlen" else []
    if choice.name != "flash" or uses_l2:
        names.append("shared_prefix")
    if uses_l2 and choice.name != "packed":
        names.append("l2")
    return names
