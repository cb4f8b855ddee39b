"""How each kind of constant of a kernel changes from one GPU to another.

The end of a constant's name tells its kind; fixed times, exponents and weights stay. Not modelled:
anything else in which two GPUs differ.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from hwmodels.device import DeviceSpec
from hwmodels.fitting.rounding import rounded
from hwmodels.fitting.transfer_facts import BLOCK_BYTES_PER_S, STREAMS_BYTES_PER_S

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    ModelT = TypeVar("ModelT", bound=DataclassInstance)
else:
    ModelT = TypeVar("ModelT")

KINDS = (
    ("cta_gqa_bytes_per_s", "block"),
    ("cta_mha_bytes_per_s", "block"),
    ("straggler_bytes_per_s", "straggler"),
    ("gqa_bytes_per_s", "l2"),
    ("mha_bytes_per_s", "l2"),
    ("merge_bytes_per_s", "l2"),
    ("flops_per_s", "compute"),
    ("bytes_per_s", "memory"),
    ("l2_reach_bytes", "l2_size"),
    ("num_sms", "count"),
    ("slots", "count"),
)
"""End of a constant's name -> kind; the first that fits. All others stay as they are."""


@dataclass(slots=True)
class TransferRules:
    """The ratios between two devices, and which of them a kernel needed.

    Attributes:
        source: device that was measured.
        target: device that was not.
        l2_ratio: L2 rate of the target over that of the source.
        used: kinds of constants changed so far.
        is_capped: a memory rate was cut to the target's peak.
    """

    source: DeviceSpec
    target: DeviceSpec
    l2_ratio: float = 1.0
    used: set[str] = field(default_factory=set)
    is_capped: bool = False

    @property
    def compute_ratio(self) -> float:
        """Ratio of datasheet compute peaks."""
        return self.target.peak_flops_per_s / self.source.peak_flops_per_s

    @property
    def streams_bytes_per_s(self) -> tuple[float, float] | None:
        """Measured streams of target and source, if both are known."""
        target, source = self.target.name, self.source.name
        if target not in STREAMS_BYTES_PER_S or source not in STREAMS_BYTES_PER_S:
            return None
        return STREAMS_BYTES_PER_S[target], STREAMS_BYTES_PER_S[source]

    @property
    def memory_ratio(self) -> float:
        """Ratio of measured streams, where both are known, else of datasheet peaks."""
        if self.streams_bytes_per_s is not None:
            return self.streams_bytes_per_s[0] / self.streams_bytes_per_s[1]
        return self.target.hbm_bytes_per_s / self.source.hbm_bytes_per_s

    @property
    def block_ratio(self) -> float:
        """Ratio for the read rate of one thread block, where it is not known; at least 1.

        No profile states a clock. Where a processor has more memory behind it, blocks of the
        source would hold the memory up, which kernels are built not to do. Between measured devices
        (A100 to H200) this halves the error of decode attention.
        """
        per_sm = self.source.num_sms / self.target.num_sms
        return max(1.0, per_sm * self.target.hbm_bytes_per_s / self.source.hbm_bytes_per_s)

    @property
    def l2_size_ratio(self) -> float:
        """Ratio of the sizes of the L2 caches."""
        return self.target.l2_bytes / self.source.l2_bytes

    @property
    def link_ratio(self) -> float:
        """Ratio of the peaks of the links between GPUs."""
        return self.target.nvlink_bytes_per_s / self.source.nvlink_bytes_per_s

    def moved(self, name: str, kind: str, value: Any) -> Any:
        """A constant on the target.

        Args:
            name: its field.
            kind: one of `KINDS`.
            value: on the source; None where a limit does not apply.
        """
        known = BLOCK_BYTES_PER_S.get(self.target.name)
        if kind in ("block", "straggler") and known is not None:
            self.used.add("block")
            return known
        if value is None or kind == "straggler":
            return value
        self.used.add(kind)
        if kind == "count":
            return max(1, round(value * self.target.num_sms / self.source.num_sms))
        ratios = {
            "block": self.block_ratio,
            "l2": self.l2_ratio,
            "l2_size": self.l2_size_ratio,
            "compute": self.compute_ratio,
            "memory": self.memory_ratio,
        }
        moved = rounded(value * ratios[kind])
        # A fitted rate may lie close to the peak of its device; here it must not end above it.
        if name == "hbm_bytes_per_s" and moved > self.target.hbm_bytes_per_s:
            self.is_capped = True
            return self.target.hbm_bytes_per_s
        return moved

    def told(self) -> str:
        """What was scaled by what, one sentence."""
        streams = self.streams_bytes_per_s
        memory_ratio = f"{self.memory_ratio:.4g}"
        if streams is None:
            memory = f"datasheet peaks ({memory_ratio})"
        else:
            rates = f"{streams[0] / 1e9:.0f} over {streams[1] / 1e9:.0f} GB/s"
            memory = f"measured streams ({rates}: {memory_ratio})"
        if self.is_capped:
            memory += " and at most the peak"
        block = (
            "the rate of one thread block by the ratio of memory peaks per processor, at least 1 "
            f"({self.block_ratio:.4g}), for no clock is known"
        )
        if self.target.name in BLOCK_BYTES_PER_S:
            rate = f"{BLOCK_BYTES_PER_S[self.target.name] / 1e9:g} GB/s"
            block = f"the rate of one thread block {rate}, fitted to step times of an RTX 6000 Ada"
        counts = f"{self.target.num_sms} for {self.source.num_sms}"
        texts = {
            "compute": f"compute rates by the ratio of datasheet peaks ({self.compute_ratio:.4g})",
            "memory": f"memory rates by the ratio of {memory}",
            "l2": f"rates of reads that L2 serves by the ratio of L2 rates ({self.l2_ratio:.4g})",
            "l2_size": f"reaches of L2 by the ratio of its sizes ({self.l2_size_ratio:.4g})",
            "block": block,
            "count": f"numbers of processors and slots by the processors ({counts})",
        }
        parts = [text for kind, text in texts.items() if kind in self.used]
        return ", ".join([*parts, "all else unchanged; the error here is unknown."])


def moved_model(model: ModelT, rules: TransferRules, kept: Collection[str] = ()) -> ModelT:
    """A model with each constant changed by the rule of its kind, nested models included.

    Args:
        model: of the source.
        rules: told which kinds were needed.
        kept: fields that stay as they are.
    """
    changes: dict[str, Any] = {}
    for item in fields(model):
        if item.name in kept:
            continue
        value = getattr(model, item.name)
        if isinstance(value, tuple):
            changes[item.name] = tuple(_moved_part(part, rules) for part in value)
        elif is_dataclass(value):
            changes[item.name] = _moved_part(value, rules)
        else:
            kind = next((kind for ending, kind in KINDS if item.name.endswith(ending)), None)
            if kind is not None:
                changes[item.name] = rules.moved(item.name, kind, value)
    return replace(model, **changes)


def _moved_part(part: Any, rules: TransferRules) -> Any:
    if is_dataclass(part) and not isinstance(part, type):
        return moved_model(part, rules)
    return part
