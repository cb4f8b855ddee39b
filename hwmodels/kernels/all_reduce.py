"""Time of an all-reduce among the GPUs of one node, by a table of group sizes.

The custom kernel inside a CUDA graph and eager NCCL are two instances of the same form. Not
modelled: groups over several nodes, links shared with other traffic.
"""

from dataclasses import dataclass, field

import numpy as np

from hwmodels.kernels.arrays import Numbers, as_times, sizes
from hwmodels.kernels.parameters import COUNT, RATE, SECONDS, check_parameters
from sim.errors import ConfigError
from sim.interfaces import FloatArray

_ROOT_BYTES = 1e6
"""Message up to which the square-root term grows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllReduceGroup:
    """Parameters of one group size.

    Attributes:
        num_gpus: GPUs of the group, 2 or more.
        base_s: fixed time.
        bytes_per_s: message bytes per second.
        root_s: time that the square-root term adds from 1 MB on.
    """

    num_gpus: int = field(metadata=COUNT)
    base_s: float = field(metadata=SECONDS)
    bytes_per_s: float = field(metadata=RATE)
    root_s: float = field(metadata=SECONDS)

    def __post_init__(self) -> None:
        check_parameters(self)
        if self.num_gpus < 2:
            raise ConfigError("AllReduceGroup: num_gpus must be at least 2, found 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class AllReduceModel:
    """`base_s + bytes / bytes_per_s + root_s * sqrt(min(bytes / 1 MB, 1))` per group size.

    Source: fitted form; custom all-reduce and NCCL tables of the three GPUs.

    Attributes:
        groups: one entry per group size that was measured.
    """

    groups: tuple[AllReduceGroup, ...]

    def __post_init__(self) -> None:
        numbers = [group.num_gpus for group in self.groups]
        if not numbers or len(set(numbers)) < len(numbers):
            raise ConfigError(f"AllReduceModel: groups must differ in num_gpus, found {numbers}")

    def time_s(self, num_bytes: Numbers, num_gpus: Numbers) -> FloatArray:
        """Seconds; 0 for one GPU. Arrays broadcast, scalars give a float.

        Args:
            num_bytes: message of each GPU, bytes.
            num_gpus: GPUs of the group.

        Raises:
            ConfigError: no parameters for a group size, or a negative message.
        """
        message, gpus = np.broadcast_arrays(
            sizes("num_bytes", num_bytes, 0.0), sizes("num_gpus", num_gpus)
        )
        times_s = np.zeros(message.shape)
        is_known = gpus == 1
        root = np.sqrt(np.minimum(message / _ROOT_BYTES, 1.0))
        for group in self.groups:
            is_group = gpus == group.num_gpus
            group_s = group.base_s + message / group.bytes_per_s + group.root_s * root
            times_s = np.where(is_group, group_s, times_s)
            is_known = is_known | is_group
        if not np.all(is_known):
            found = f"{float(gpus[~is_known].flat[0]):.12g}"
            allowed = ", ".join(str(group.num_gpus) for group in self.groups)
            raise ConfigError(f"num_gpus must be 1, {allowed} for an all-reduce, found {found}")
        return as_times(times_s)
