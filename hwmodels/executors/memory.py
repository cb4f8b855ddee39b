"""KV blocks that are left when an executor has taken its memory."""

from hwmodels.executors.executor import Site
from sim.errors import CapacityError
from sim.units import GIB

_MIN_BLOCKS = 2
"""An engine sets one block aside as the null block."""


def without_bytes(site: Site, taken_bytes: int, executor: str) -> int:
    """KV blocks of an instance after `taken_bytes` of each GPU went to the executor.

    Raises:
        CapacityError: fewer are left than an engine needs.
    """
    if not taken_bytes:
        return site.num_gpu_blocks
    num_blocks = (site.budget_bytes - taken_bytes) // site.block_bytes
    if num_blocks < _MIN_BLOCKS:
        raise CapacityError(
            f"executor={executor} takes {taken_bytes / GIB:.2f} GiB of "
            f"{site.budget_bytes / GIB:.2f} GiB for KV per GPU, which leaves no KV block"
        )
    return num_blocks
