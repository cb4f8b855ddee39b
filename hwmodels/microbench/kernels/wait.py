"""Keeps the device busy for a while, so that the host can queue work behind it."""

import torch
import triton
import triton.language as tl


@triton.jit(do_not_specialize=["num_steps"])
def _wait_kernel(number, num_steps):
    value = tl.load(number)
    for _ in range(num_steps):
        value = value * 0.5 + 1.0
    tl.store(number, value)


def wait(number: torch.Tensor, num_steps: int) -> None:
    """Steps of some nanoseconds each that wait for one another.

    Args:
        number: float32, shape (1,).
        num_steps: how many.
    """
    _wait_kernel[(1,)](number, num_steps, num_warps=1)
