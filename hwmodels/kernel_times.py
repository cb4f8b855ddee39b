"""Times of the kernels of a device: what `load_profile(name)` answers besides its constants.

Parameters are fitted to measurements of that very device and read at the first question. A device
without them answers with one clear line.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.errors import ConfigError

if TYPE_CHECKING:
    from hwmodels.kernels import KernelModels
    from hwmodels.kernels.arrays import Numbers
    from hwmodels.kernels.decode_step import DecodeStepTime
    from hwmodels.model_shape import ModelShape
    from sim.interfaces import FloatArray

DECODE_KERNELS = ("flash", "unsplit", "padded")

_NEEDS_NO_L2 = "hardware.fidelity=calibrated with kernel.name=flash"
_WITHOUT = {
    "mixed_attention": "kernel.mixed_batch=separate",
    "shared_prefix": _NEEDS_NO_L2,
    "l2": _NEEDS_NO_L2,
    "all_reduce": "cluster.tensor_parallel=1",
}
"""Options of a run that do without a kernel."""


@lru_cache(maxsize=64)
def _loaded(name_or_path: str, modified_ns: int = 0) -> "KernelModels":
    """Kernels by name or path; a file that has changed since is read anew."""
    from hwmodels.kernels import load_kernels

    return load_kernels(name_or_path)


def _modified_ns(name_or_path: str) -> int:
    path = Path(name_or_path)
    return path.stat().st_mtime_ns if path.is_file() else 0


@lru_cache(maxsize=16)
def _tabled(name_or_path: str, table: str, modified_ns: int, table_ns: int) -> "KernelModels":
    """Kernels corrected by a table; files that have changed since are read anew."""
    from hwmodels.tables import load_table, tabled

    return tabled(_loaded(name_or_path, modified_ns), load_table(table))


def _devices_with(kernel: str) -> str:
    """Names of the packaged devices whose kernel of that name is calibrated, as a text."""
    from hwmodels.kernels import available_kernels

    names = [name for name in available_kernels() if getattr(_loaded(name), kernel) is not None]
    return ", ".join(names) or "none"


def _remedy(kernel: str, kernels_at: str) -> str:
    """What to do about a kernel that a device lacks; `kernels_at` as in `KernelTimes`."""
    if not kernels_at:
        return "a profile FOLDER/MINE.json of your own needs FOLDER/kernels/MINE.json"
    option = _WITHOUT.get(kernel, "hardware.fidelity=roofline")
    where = f"{kernels_at} lacks it: " if Path(kernels_at).is_file() else ""
    return (
        f"{where}{option} does without it, and flocksim-calibrate transfer makes all kernels from "
        "those of a measured device"
    )


class KernelTimes:
    """Kernel times of a device, for one GPU and one layer unless said otherwise.

    Every method takes numbers or arrays that broadcast and returns seconds as float64: an array of
    the broadcast shape, or a float for numbers. Every method raises `ConfigError` where the device
    has no calibrated kernel of that kind, or a size is out of range.
    """

    __slots__ = ()

    name: str
    kernels_at: str
    table_at: str

    @property
    def kernels(self) -> "KernelModels":
        """The calibrated kernel models, with their provenance.

        Raises:
            ConfigError: the device has none.
        """
        if not self.kernels_at:
            from hwmodels.kernels import available_kernels

            names = ", ".join(available_kernels()) or "none"
            raise ConfigError(
                f"device {self.name} has no calibrated kernels; profiles that have: {names}"
            )
        models = _loaded(self.kernels_at, _modified_ns(self.kernels_at))
        if models.device != self.name:
            raise ConfigError(
                f"device {self.name}: {self.kernels_at} holds kernels of device {models.device}"
            )
        if not self.table_at:
            return models
        sources = (self.kernels_at, self.table_at)
        return _tabled(*sources, *(_modified_ns(source) for source in sources))

    def kernel(self, name: str) -> Any:
        """The model of one kernel, by its field of `KernelModels`.

        Raises:
            ConfigError: the device has none; names those that have.
        """
        model = getattr(self.kernels, name) if self.kernels_at else None
        if model is None:
            raise ConfigError(
                f"device {self.name} has no calibrated {name} kernel; "
                f"profiles that have it: {_devices_with(name)}; {_remedy(name, self.kernels_at)}"
            )
        return model

    def gemm_time_s(self, m: "Numbers", n: "Numbers", k: "Numbers") -> "FloatArray":
        """Seconds of `C[m, n] = A[m, k] B[k, n]` in bf16."""
        times_s: FloatArray = self.kernel("gemm").time_s(m, n, k)
        return times_s

    def decode_attention_time_s(
        self,
        context_tokens: "Numbers",
        num_heads: int,
        num_kv_heads: int,
        head_dim: int = 128,
        kernel: str = "flash",
    ) -> float:
        """Seconds of decode attention of one batch.

        Args:
            context_tokens: context length of each request, shape (requests,).
            num_heads: query heads on this GPU.
            num_kv_heads: KV heads on this GPU.
            head_dim: width of a head.
            kernel: "flash" splits contexts where the batch is small; "unsplit" gives each request
                and KV head one thread block; "padded" reads every context at the longest length.
        """
        from hwmodels.kernels.decode_step import check_choice

        check_choice("kernel", kernel, DECODE_KERNELS)
        model = self.kernel("decode_attention")
        if kernel == "unsplit":
            model = replace(model, split_slots=1)
        is_padded = kernel == "padded"
        return float(
            model.lengths_time_s(context_tokens, num_heads, num_kv_heads, head_dim, is_padded)
        )

    def prefill_attention_time_s(
        self,
        batch_size: "Numbers",
        chunk_tokens: "Numbers",
        prefix_tokens: "Numbers",
        num_heads: "Numbers",
        num_kv_heads: "Numbers",
        head_dim: "Numbers" = 128,
    ) -> "FloatArray":
        """Seconds of causal attention of `batch_size` equal chunks, each after its prefix."""
        times_s: FloatArray = self.kernel("prefill_attention").time_s(
            batch_size, chunk_tokens, prefix_tokens, num_heads, num_kv_heads, head_dim
        )
        return times_s

    def shared_prefix_decode_time_s(
        self,
        nodes_per_level: Sequence[int],
        tokens_per_level: Sequence[int],
        num_heads: int,
        num_kv_heads: int,
        head_dim: int = 128,
        kernel: str = "flash",
    ) -> float:
        """Seconds of decode attention over a regular prefix tree whose leaves are the requests.

        Args:
            nodes_per_level: nodes of each level from the root on, shape (levels,).
            tokens_per_level: tokens of a node of each level, shape (levels,).
            num_heads: query heads on this GPU.
            num_kv_heads: KV heads on this GPU.
            head_dim: width of a head.
            kernel: "flash", "flash_pat", "flash_cascade", "flashinfer" or "packed".
        """
        model = self.kernel("shared_prefix")
        return float(
            model.time_s(
                nodes_per_level, tokens_per_level, num_heads, num_kv_heads, head_dim, kernel=kernel
            )
        )

    def allreduce_time_s(
        self, num_bytes: "Numbers", num_gpus: "Numbers", mode: str = "cuda_graph"
    ) -> "FloatArray":
        """Seconds of an all-reduce inside a node; 0 for one GPU.

        Args:
            num_bytes: message of each GPU, bytes.
            num_gpus: GPUs of the group.
            mode: "cuda_graph" (custom kernel inside a graph) or "nccl" (eager).
        """
        from hwmodels.kernels.decode_step import ALL_REDUCE_MODES, check_choice

        check_choice("mode", mode, ALL_REDUCE_MODES)
        model = self.kernel("all_reduce" if mode == "cuda_graph" else "nccl")
        times_s: FloatArray = model.time_s(num_bytes, num_gpus)
        return times_s

    def l2_bandwidth_bytes_per_s(self, data_set_bytes: "Numbers") -> "FloatArray":
        """Bandwidth, bytes/s, at which all processors read a data set over and over."""
        from hwmodels.kernels.arrays import as_times, sizes

        return as_times(self.kernel("l2").bytes_per_s(sizes("data_set_bytes", data_set_bytes)))

    def moe_time_s(
        self,
        num_tokens: "Numbers",
        hidden_size: "Numbers",
        intermediate_size: "Numbers",
        top_k: "Numbers",
        num_experts: "Numbers",
    ) -> "FloatArray":
        """Seconds of a layer's routed experts; the least exact of all kernels, trends only."""
        times_s: FloatArray = self.kernel("moe").time_s(
            num_tokens, hidden_size, intermediate_size, top_k, num_experts
        )
        return times_s

    def decode_step_time_s(
        self, model: "ModelShape", tensor_parallel: int, context_tokens: "Numbers"
    ) -> float:
        """Seconds of a whole decode step, all layers and the host's time included.

        Args:
            model: the whole model, such as `load_model("llama3_8b")`.
            tensor_parallel: GPUs of the instance, inside one node.
            context_tokens: context length of each request, shape (requests,).
        """
        return self.decode_step_time(model, tensor_parallel, context_tokens).total_s

    def decode_step_time(
        self,
        model: "ModelShape",
        tensor_parallel: int,
        context_tokens: "Numbers",
        host_overhead: str = "constant",
        all_reduce_mode: str = "cuda_graph",
    ) -> "DecodeStepTime":
        """A decode step by term; arguments as in `hwmodels.kernels.decode_step`."""
        from hwmodels.kernels.decode_step import decode_step_time

        return decode_step_time(
            self,  # type: ignore[arg-type]
            model,
            tensor_parallel,
            context_tokens,
            host_overhead,
            all_reduce_mode,
        )
