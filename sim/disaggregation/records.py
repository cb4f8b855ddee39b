"""What happened to requests between prefill and decode, in columns."""

from array import array
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


class HandoverLog:
    """Rows over requests, written while they move.

    Args:
        num_requests: rows.

    Attributes:
        prefill_instance: where the first token was made, -1 for requests that were not handed over.
        prefill_step: that step of the instance, from 1; 0 likewise.
        transfer_start_s: start of the first transfer, seconds; NaN before, like all times.
        transfer_end_s: arrival of the KV on the decode GPU.
        transfer_bytes: moved in all transfers of the request.
        decode_start_s: when the request joined the decode batch.
    """

    def __init__(self, num_requests: int) -> None:
        nothing = array("d", [np.nan])
        self.prefill_instance = array("q", [-1]) * num_requests
        self.prefill_step = array("q", [0]) * num_requests
        self.transfer_start_s = nothing * num_requests
        self.transfer_end_s = nothing * num_requests
        self.transfer_bytes = array("q", [0]) * num_requests
        self.decode_start_s = nothing * num_requests


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRecords:
    """A kind of instances.

    Attributes:
        name: `prefill`, `mixed` or `decode`.
        instances: their ids.
        num_gpu_blocks: KV blocks of each, the null block included.
    """

    name: str
    instances: range
    num_gpu_blocks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverRecords:
    """Columns over requests as in `HandoverLog`, and what links and caches did beside the steps.

    In `RequestRecords` a request that was handed over has the decode instance, and the steps that
    gave it tokens there; its first token came from its prefill instance.

    Attributes:
        prefill_instance: Shape (n,), like all columns.
        prefill_step: as in the log.
        transfer_start_s: as in the log.
        transfer_end_s: as in the log.
        transfer_bytes: as in the log.
        decode_start_s: as in the log.
        pools: the kinds of instances, in order of their ids.
        more_block_seconds: per instance, integral over time of KV blocks that were held outside its
            plans (by KV that waited to leave, or came early), blocks times seconds.
        sent_busy_s: per instance, time during which it sent KV to another one, seconds.
        received_busy_s: per instance, time during which it received KV from another one, seconds.
        sent_bytes: per instance, KV that it sent to other instances.
        received_bytes: per instance, KV that it received from other instances.
        host_bytes: KV that went to or from the host.
        host_peak_bytes: most KV in the host pool at once.
        buffer_peak_bytes: most KV in the buffer of a prefill instance at once.
    """

    prefill_instance: IntArray
    prefill_step: IntArray
    transfer_start_s: FloatArray
    transfer_end_s: FloatArray
    transfer_bytes: IntArray
    decode_start_s: FloatArray
    pools: tuple[PoolRecords, ...]
    more_block_seconds: tuple[float, ...]
    sent_busy_s: tuple[float, ...]
    received_busy_s: tuple[float, ...]
    sent_bytes: tuple[int, ...]
    received_bytes: tuple[int, ...]
    host_bytes: int
    host_peak_bytes: int
    buffer_peak_bytes: int

    @property
    def is_handed_over(self) -> BoolArray:
        """Requests whose first token came from another instance than the others. Shape (n,)."""
        is_handed_over: BoolArray = self.prefill_step > 0
        return is_handed_over
