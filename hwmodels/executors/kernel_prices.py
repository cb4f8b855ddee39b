"""The parts of a step that executors change, read off the two cost models of a GPU."""

from hwmodels.calibrated import CalibratedCost, TokenTimes
from hwmodels.executors.executor import KernelCost
from hwmodels.kernels.cascade import MIN_BATCH_SIZE, MIN_PREFIX_TOKENS, uses_cascade
from hwmodels.work import all_reduce_bytes, num_all_reduces
from sim.errors import ConfigError
from sim.interfaces import DecodeBatchView

NO_TIME = TokenTimes(0.0, 0.0, 0.0)


def host_s(cost: KernelCost, num_requests: int) -> float:
    """Host time of a step of so many requests, as the cost model adds it, seconds."""
    device = cost.device
    return device.step_overhead_s + num_requests * device.step_overhead_request_s


def padding_times(cost: KernelCost, num_tokens: int, padded_tokens: int) -> TokenTimes:
    """What the layers take longer for `padded_tokens` rows than for `num_tokens`, seconds.

    Matrix products, small operators and all-reduces; attention and logits are not padded. Never
    negative: where a kernel switch makes more rows faster, the padded time is the measured one.
    """
    if padded_tokens == num_tokens:
        return NO_TIME
    if isinstance(cost, CalibratedCost):
        more, fewer = cost.layer_times(padded_tokens), cost.layer_times(num_tokens)
    else:
        more, fewer = (
            TokenTimes(one.gemm_s, one.small_ops_s, one.collective_s)
            for one in (cost.layers_cost(padded_tokens), cost.layers_cost(num_tokens))
        )
    return TokenTimes(*(max(0.0, x - y) for x, y in zip(more, fewer, strict=True)))


def eager_all_reduce_times(cost: KernelCost, num_tokens: int) -> TokenTimes:
    """What all-reduces of a step take longer with NCCL than with the custom kernel, seconds.

    Raises:
        ConfigError: NCCL was not measured on that device.
    """
    if cost.tensor_parallel == 1 or not isinstance(cost, CalibratedCost):
        return NO_TIME
    num_bytes = all_reduce_bytes(cost.shard, num_tokens)
    custom_s, nccl_s = (
        float(cost.device.allreduce_time_s(num_bytes, cost.tensor_parallel, mode=mode))
        for mode in ("cuda_graph", "nccl")
    )
    return TokenTimes(0.0, 0.0, num_all_reduces(cost.shard) * max(0.0, nccl_s - custom_s))


def check_nccl(cost: KernelCost, option: str) -> None:
    """Refuse a choice of all-reduce where there is none to choose.

    Raises:
        ConfigError: one GPU, or peaks alone.
    """
    why = ""
    if cost.tensor_parallel == 1:
        why = "cluster.tensor_parallel=1 reduces nothing"
    elif not isinstance(cost, CalibratedCost):
        why = "hardware.fidelity=roofline knows one all-reduce"
    if why:
        raise ConfigError(f"executor.{option} has no effect: {why}; leave it out")


class CascadeTest:
    """Says whether a step reads a common prefix in a pass of its own.

    Args:
        cost: what steps take; without cascade attention the answer is no.
        block_tokens: tokens of a KV block; only whole blocks are common.
    """

    def __init__(self, cost: KernelCost, block_tokens: int) -> None:
        self._cost = cost
        self._block_tokens = block_tokens
        self._has_cascade = isinstance(cost, CalibratedCost) and cost.kernel.name == "flash_cascade"
        self._is_used: dict[tuple[int, int], bool] = {}

    def decode(self, batch: DecodeBatchView) -> bool:
        """Whether a decode-only step does; the same in all steps of a run."""
        size, tree = batch.num_requests, batch.tree
        if not self._has_cascade or tree is None or size < MIN_BATCH_SIZE:
            return False
        prefix = tree.common_tokens // self._block_tokens * self._block_tokens
        if prefix < MIN_PREFIX_TOKENS:
            return False
        key = size, prefix
        if key not in self._is_used:
            shard = self._cost.shard
            self._is_used[key] = bool(
                uses_cascade(
                    *(size, prefix, shard.num_attention_heads, shard.num_kv_heads),
                    self._cost.device.kernel("decode_attention").num_sms,
                    longest_query_tokens=1,
                )
            )
        return self._is_used[key]
