"""Device memory and random data that the cases of a run share."""

import zlib

import numpy as np
import torch

from hwmodels.microbench.case import HEAD_DIM, PAGE_TOKENS, Case
from hwmodels.microbench.kernels import stream

_FLUSH_RATIO = 4
"""Bytes read to empty the L2 cache, over its size."""


class Workspace:
    """Buffers on one device.

    Args:
        device: a CUDA device, or the CPU for the interpreter.
        num_sms: processors of the device.
        l2_bytes: its L2 cache; 0: none to flush.
        seed: of all data.

    Attributes:
        device: where the data is.
        dtype: of matrices, keys and values: bf16; fp16 on the CPU, whose interpreter has no matrix
            products of bf16.
        num_sms: processors of the device.
    """

    def __init__(self, device: str, num_sms: int, l2_bytes: int, seed: int) -> None:
        self.device = torch.device(device)
        self.dtype = torch.float16 if self.device.type == "cpu" else torch.bfloat16
        self.num_sms = num_sms
        self._l2_bytes = l2_bytes
        self._seed = seed
        self._keys: torch.Tensor | None = None
        self._values: torch.Tensor | None = None
        self._scratch: torch.Tensor | None = None
        self._sums: torch.Tensor | None = None

    def rng_of(self, case: Case) -> np.random.Generator:
        """Random numbers of a case: the same in every run of the same seed."""
        return np.random.default_rng([self._seed, zlib.crc32(case.id.encode())])

    def normal(self, *shape: int, seed: int = 0) -> torch.Tensor:
        """Normally distributed 16-bit numbers."""
        return self._filled(int(np.prod(shape)), seed).view(*shape)

    def empty(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        """A tensor for results."""
        return torch.empty(shape, dtype=dtype or self.dtype, device=self.device)

    def integers(self, values: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]") -> torch.Tensor:
        """An int32 tensor of these values."""
        return torch.from_numpy(np.ascontiguousarray(values, dtype=np.int32)).to(self.device)

    def keys_and_values(self, num_pages: int, num_kv_heads: int) -> tuple[torch.Tensor, ...]:
        """Keys and values of random numbers, shape (pages, page tokens, KV heads, head width)."""
        num_elements = num_pages * PAGE_TOKENS * num_kv_heads * HEAD_DIM
        if self._keys is None or self._keys.numel() < num_elements:
            self._keys = self._values = None  # free the old ones first
            self._keys = self._filled(num_elements, 1)
            self._values = self._filled(num_elements, 2)
        assert self._values is not None
        shape = (num_pages, PAGE_TOKENS, num_kv_heads, HEAD_DIM)
        return self._keys[:num_elements].view(shape), self._values[:num_elements].view(shape)

    def flush(self) -> None:
        """Empty the L2 cache by reading other data: none is left to be written back."""
        if self._scratch is None:
            num_elements = stream.num_elements(_FLUSH_RATIO * self._l2_bytes)
            self._scratch = torch.ones(num_elements, dtype=torch.float32, device=self.device)
            self._sums = self.empty(stream.num_programs(self.num_sms), dtype=torch.float32)
        stream.read(self._scratch, self._sums)

    def release(self) -> None:
        """Give the large buffers back."""
        self._keys = self._values = None

    def _filled(self, num_elements: int, seed: int) -> torch.Tensor:
        generator = torch.Generator(device=self.device).manual_seed(self._seed * 1000 + seed)
        numbers = torch.empty(num_elements, dtype=self.dtype, device=self.device)
        return numbers.normal_(generator=generator)
