"""Time of collectives among the GPUs of one node: latency plus bytes over bandwidth.

Not modelled: links between nodes, reduction inside the switch, messages that compete for links.
"""

from hwmodels.device import DeviceSpec
from sim.errors import ConfigError

MAX_GPUS_PER_NODE = 8
"""GPUs that NVLink joins.

Source: NVIDIA HGX A100, H100 and H200 8-GPU boards."""


def check_fits_node(tensor_parallel: int) -> None:
    """Check that a tensor-parallel group stays inside one node.

    Raises:
        ConfigError: it does not.
    """
    if not 1 <= tensor_parallel <= MAX_GPUS_PER_NODE:
        raise ConfigError(
            f"cluster.tensor_parallel={tensor_parallel}: only groups inside one node are modelled; "
            f"allowed: 1..{MAX_GPUS_PER_NODE}"
        )


def all_reduce_s(device: DeviceSpec, message_bytes: int, num_gpus: int) -> float:
    """Ring all-reduce: each GPU sends `2 (n-1)/n` of the message. 0 for one GPU, seconds."""
    if num_gpus == 1:
        return 0.0
    sent_bytes = 2 * (num_gpus - 1) / num_gpus * message_bytes
    return device.collective_latency_s + sent_bytes / device.attainable_nvlink_bytes_per_s


def all_gather_s(device: DeviceSpec, part_bytes: int, num_gpus: int) -> float:
    """Ring all-gather of one part per GPU: each sends `n-1` parts. 0 for one GPU, seconds."""
    if num_gpus == 1:
        return 0.0
    sent_bytes = (num_gpus - 1) * part_bytes
    return device.collective_latency_s + sent_bytes / device.attainable_nvlink_bytes_per_s
