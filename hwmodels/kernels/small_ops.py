"""Time of the small operators: norms, rotary positions, activation, residuals and sampling.

Each is a kernel of its own that only moves memory: for few tokens a fixed time, for many their
bytes over a rate. Not modelled: kernels fused into one another by a compiler.
"""

from dataclasses import dataclass, field

import numpy as np

from hwmodels.kernels.arrays import Numbers, as_times, sizes
from hwmodels.kernels.parameters import RATE, SECONDS, check_parameters
from sim.interfaces import FloatArray

_LOGIT_BYTES = 4
"""Sampling works on float32 logits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallOpsModel:
    """`hypot(layer_s, tokens * bytes per token / bytes_per_s)` for the small operators of a layer.

    The sum of both errs more on held-out models: 15.5 against 12.3 % on A100, 12.6 against 10.5 %
    on H100. Launches hide behind what is moved.

    Source: per-operator curves of Vidur's A100 and H100 profiles.

    Attributes:
        layer_s: fixed time of all small operators of a layer.
        bytes_per_s: rate at which they move their operands.
        sampling_s: fixed time of sampling, once per step.
        sampling_bytes_per_s: float32 logits that sampling takes, bytes per second.
    """

    layer_s: float = field(metadata=SECONDS)
    bytes_per_s: float = field(metadata=RATE)
    sampling_s: float = field(metadata=SECONDS)
    sampling_bytes_per_s: float = field(metadata=RATE)

    def __post_init__(self) -> None:
        check_parameters(self)

    def time_s(
        self, num_tokens: Numbers, token_bytes: Numbers, num_layers: Numbers = 1
    ) -> FloatArray:
        """Seconds of the small operators of some layers; arrays broadcast, scalars give a float.

        Args:
            num_tokens: tokens of the step.
            token_bytes: bytes that the operators of one layer read and write per token (for a model
                `small_ops_bytes(shape, 1) / num_layers` of `hwmodels.work`).
            num_layers: layers.

        Raises:
            ConfigError: a size is below 1, or bytes are negative.
        """
        moved_bytes = sizes("num_tokens", num_tokens) * sizes("token_bytes", token_bytes, 0.0)
        layer_s = np.hypot(self.layer_s, moved_bytes / self.bytes_per_s)
        return as_times(sizes("num_layers", num_layers) * layer_s)

    def sample_s(self, num_sampled: Numbers, vocab_size: Numbers) -> FloatArray:
        """Seconds to sample some positions; 0 for none. Arrays broadcast, scalars give a float.

        Raises:
            ConfigError: a negative number of positions, or a vocabulary below 1.
        """
        sampled = sizes("num_sampled", num_sampled, 0.0)
        logit_bytes = _LOGIT_BYTES * sampled * sizes("vocab_size", vocab_size)
        times_s = self.sampling_s + logit_bytes / self.sampling_bytes_per_s
        return as_times(np.where(sampled > 0, times_s, 0.0))
