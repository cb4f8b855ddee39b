"""The kernel models of one device, read from and written to a JSON file.

A file holds, per kernel, `values` (the parameters, SI units in their names) and the keys of
`Provenance`; null stands for a kernel that is not known for the device. Not modelled: transfer of
parameters to another device.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from hwmodels.kernels.all_reduce import AllReduceModel
from hwmodels.kernels.decode_attention import DecodeAttentionModel
from hwmodels.kernels.gemm import GemmModel
from hwmodels.kernels.l2_curve import L2Curve
from hwmodels.kernels.mixed_attention import MixedAttentionModel
from hwmodels.kernels.moe import MoeModel
from hwmodels.kernels.parameters import from_values, parameter_names, to_values
from hwmodels.kernels.prefill_attention import PrefillAttentionModel
from hwmodels.kernels.provenance import PROVENANCE_KEYS, Provenance
from hwmodels.kernels.shared_prefix import SharedPrefixModel
from hwmodels.kernels.small_ops import SmallOpsModel
from hwmodels.strict_json import (
    as_object,
    as_text,
    check_keys,
    looks_like_path,
    packaged_names,
    packaged_record,
    read_object,
    shown,
)
from sim.errors import ConfigError

_FOLDER = "profiles/kernels"
_FILE_KEYS = ("device", "date", "inputs", "kernels")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelModels:
    """One model per kernel of a device; None where the kernel is not known.

    Attributes:
        device: name of the device profile that the parameters belong to.
        gemm: dense matrix products.
        decode_attention: attention of decode batches.
        prefill_attention: attention of prefill chunks.
        mixed_attention: attention of decodes and prefill chunks in one call.
        moe: routed experts.
        all_reduce: custom all-reduce inside a CUDA graph.
        nccl: eager NCCL all-reduce.
        small_ops: norms, rotary positions, activation, residuals, sampling.
        l2: bandwidth against the size of the data set.
        shared_prefix: decode attention over a prefix tree.
        provenance: of each kernel that is known, by the name of its field.
        date: when the parameters were fitted, ISO 8601.
        inputs: SHA-256 of each measurement file, by its path inside the data folder.
    """

    device: str
    gemm: GemmModel | None = None
    decode_attention: DecodeAttentionModel | None = None
    prefill_attention: PrefillAttentionModel | None = None
    mixed_attention: MixedAttentionModel | None = None
    moe: MoeModel | None = None
    all_reduce: AllReduceModel | None = None
    nccl: AllReduceModel | None = None
    small_ops: SmallOpsModel | None = None
    l2: L2Curve | None = None
    shared_prefix: SharedPrefixModel | None = None
    provenance: Mapping[str, Provenance] = field(default_factory=dict)
    date: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, provenance in self.provenance.items():
            model = getattr(self, name, None) if name in KERNEL_CLASSES else None
            if model is None:
                raise ConfigError(f"provenance of {shown(name)}, which is no kernel of this device")
            skipped = _sibling_fields(type(model))
            where = f"{self.device}: {name}: standard_errors"
            check_keys(where, provenance.standard_errors, parameter_names(model, skipped))

    def to_json(self) -> dict[str, object]:
        """The models as JSON values; `from_json` reads them back.

        Raises:
            ConfigError: a kernel has no provenance.
        """
        kernels: dict[str, object] = {}
        for name, model_class in KERNEL_CLASSES.items():
            model = getattr(self, name)
            kernels[name] = None
            if model is None:
                continue
            if name not in self.provenance:
                raise ConfigError(f"{self.device}: {name} has no provenance")
            values = to_values(model, _sibling_fields(model_class))
            kernels[name] = {"values": values, **self.provenance[name].to_json()}
        return {
            "device": self.device,
            "date": self.date,
            "inputs": dict(self.inputs),
            "kernels": kernels,
        }

    @classmethod
    def from_json(cls, record: Mapping[str, object], where: str = "kernels") -> "KernelModels":
        """Build the models from JSON values; `where` names them in messages.

        Raises:
            ConfigError: a key is missing or unknown, or a value is not allowed.
        """
        check_keys(where, record, _FILE_KEYS)
        date = as_text(f"{where}: date", record["date"])
        if not _DATE.fullmatch(date):
            raise ConfigError(f"{where}: date must be YYYY-MM-DD, found {shown(date)}")
        inputs = as_object(f"{where}: inputs", record["inputs"])
        kernels = as_object(f"{where}: kernels", record["kernels"])
        required = [name for name in KERNEL_CLASSES if name not in _OPTIONAL]
        check_keys(f"{where}: kernels", kernels, required, _OPTIONAL)
        models: dict[str, Any] = {}
        provenance: dict[str, Provenance] = {}
        for name, model_class in KERNEL_CLASSES.items():
            models[name] = None
            if kernels.get(name) is None:
                continue
            place = f"{where}: {name}"
            entry = as_object(place, kernels[name])
            check_keys(place, entry, ("values", *PROVENANCE_KEYS))
            values = as_object(f"{place}: values", entry["values"])
            given = {sibling: models[sibling] for sibling in _sibling_fields(model_class)}
            models[name] = from_values(f"{place}: values", model_class, values, given)
            rest = {key: value for key, value in entry.items() if key != "values"}
            provenance[name] = Provenance.from_json(place, rest)
        return cls(
            device=as_text(f"{where}: device", record["device"]),
            date=date,
            inputs={
                path: as_text(f"{where}: inputs: {path}", item) for path, item in inputs.items()
            },
            provenance=provenance,
            **models,
        )


KERNEL_CLASSES: dict[str, type[Any]] = {
    "gemm": GemmModel,
    "decode_attention": DecodeAttentionModel,
    "prefill_attention": PrefillAttentionModel,
    "mixed_attention": MixedAttentionModel,
    "moe": MoeModel,
    "all_reduce": AllReduceModel,
    "nccl": AllReduceModel,
    "small_ops": SmallOpsModel,
    "l2": L2Curve,
    "shared_prefix": SharedPrefixModel,
}
"""Model of each kernel, by the field of `KernelModels`; later ones may hold earlier ones."""


_OPTIONAL = ("mixed_attention",)
"""Kernels that a file may leave out: those written before there was a model of them."""


def _sibling_fields(model_class: type[Any]) -> frozenset[str]:
    """Fields of a model that hold another kernel's model, which the file states only once."""
    return frozenset(item.name for item in fields(model_class) if item.name in KERNEL_CLASSES)


def available_kernels() -> list[str]:
    """Names of the packaged devices with calibrated kernels, sorted."""
    return packaged_names(_FOLDER) if (files("hwmodels") / _FOLDER).is_dir() else []


def load_kernels(name_or_path: str | Path) -> KernelModels:
    """Read the kernel models of a device, packaged (by name) or the user's own (by path).

    Args:
        name_or_path: a name such as ``a100_sxm_80gb``, or a path: anything with a path separator
            or ending in ``.json``.

    Raises:
        ConfigError: unknown name, unreadable file, or a key or value that is not allowed.
    """
    if isinstance(name_or_path, Path) or looks_like_path(name_or_path):
        source = Path(name_or_path)
        return KernelModels.from_json(read_object(source), f"{source}")
    record = packaged_record("device with calibrated kernels", _FOLDER, name_or_path)
    return KernelModels.from_json(read_object(record), f"{record}")
