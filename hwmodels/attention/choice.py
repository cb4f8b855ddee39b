"""Which attention kernel an engine runs, and how.

Not every option means something with every kernel; one that does not is refused.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from hwmodels.kernels.shared_prefix import SharedPrefixKernel
from hwmodels.kernels.tree_traffic import MemberOrder
from hwmodels.strict_json import shown
from sim.errors import ConfigError

Family = Literal["split_kv", "per_head", "padded"]
MixedBatch = Literal["fused_varlen", "separate"]

_DECODE_FORM = ("flash", "flash_cascade")
"""Kernels priced with the decode form, whose thread blocks are modelled one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelChoice:
    """An attention kernel.

    Attributes:
        name: `flash` reads every context on its own; `flash_cascade` is the same with vLLM's rule
            for a common prefix; `flashinfer` and `flash_pat` are other builds that read every
            context; `packed` reads every node of the prefix tree once.
        family: how `flash` and `flash_cascade` cut the work: `split_kv` cuts contexts where
            requests are few, `per_head` gives each request and KV head one thread block, `padded`
            reads every context at the length of the longest.
        member_order: order in which requests take the processors, which decides about L2 hits.
        mixed_batch: decodes and prefills of a step in one call of variable lengths, or one after
            the other.

    Raises:
        ConfigError: an option is unknown or means nothing with that kernel.
    """

    name: SharedPrefixKernel = "flash"
    family: Family = "split_kv"
    member_order: MemberOrder = "interleaved"
    mixed_batch: MixedBatch = "separate"

    def __post_init__(self) -> None:
        for key, allowed in (
            ("name", SharedPrefixKernel),
            ("family", Family),
            ("member_order", MemberOrder),
            ("mixed_batch", MixedBatch),
        ):
            value = getattr(self, key)
            if value not in get_args(allowed):
                raise ConfigError(
                    f"kernel.{key} must be one of {', '.join(get_args(allowed))}, "
                    f"found {shown(value)}"
                )
        if self.has_decode_form:
            return
        who = f"kernel.name={self.name}"
        if self.family != "split_kv":
            raise ConfigError(f"kernel.family={self.family}: {who} has no such variant")
        if self.mixed_batch != "separate":
            raise ConfigError(f"kernel.mixed_batch={self.mixed_batch}: {who} runs them apart")

    @property
    def has_decode_form(self) -> bool:
        """Whether the fitted decode form prices it."""
        return self.name in _DECODE_FORM

    @property
    def reads_nodes_once(self) -> bool:
        """Whether it uses the prefix tree itself, whatever L2 does."""
        return self.name in ("flash_cascade", "packed")
