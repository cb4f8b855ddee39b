"""Time of the routed experts of one layer on one GPU.

Not modelled: experts spread over GPUs, uneven routing. Its error is the largest of all kernels:
trends only.
"""

from dataclasses import dataclass, field

import numpy as np

from hwmodels.kernels.arrays import Numbers, as_times, sizes, smooth_max
from hwmodels.kernels.parameters import P_NORM, RATE, SECONDS, WEIGHT, check_parameters
from sim.errors import ConfigError
from sim.interfaces import FloatArray

_SMALLEST_TILE_ROWS = 16.0
_LARGEST_TILE_ROWS = 64.0
_ELEMENT_BYTES = 2
_MATRICES = 3
"""Gate, up and down projection of an expert."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoeModel:
    """`launch + expert_s * E + pnorm(memory, compute)` for tokens that choose experts evenly.

    Memory moves the weights of `E (1 - (1 - k/E)^T)` distinct experts and the activations, compute
    runs rows padded to tiles of 16 to 64.

    Source: fitted form; MoE table of A100-SXM4-80GB.

    Attributes:
        launch_s: fixed time of the kernels.
        hbm_bytes_per_s: memory rate; above the peak where the p-norm is near 1, a fit's artefact.
        flops_per_s: compute rate.
        p_norm: exponent that joins both.
        expert_s: time per expert of the layer, visited or not.
        activation_weight: times that activations are moved.
    """

    launch_s: float = field(metadata=SECONDS)
    hbm_bytes_per_s: float = field(metadata=RATE)
    flops_per_s: float = field(metadata=RATE)
    p_norm: float = field(metadata=P_NORM)
    expert_s: float = field(metadata=SECONDS)
    activation_weight: float = field(metadata=WEIGHT)

    def __post_init__(self) -> None:
        check_parameters(self)

    def time_s(
        self,
        num_tokens: Numbers,
        hidden_size: Numbers,
        intermediate_size: Numbers,
        top_k: Numbers,
        num_experts: Numbers,
    ) -> FloatArray:
        """Seconds of one layer's experts; arrays broadcast, scalars give a float.

        Args:
            num_tokens: tokens of the step.
            hidden_size: width of the residual stream.
            intermediate_size: width of one expert on this GPU.
            top_k: experts that a token visits, at most `num_experts`.
            num_experts: routed experts of the layer.

        Raises:
            ConfigError: a size is below 1, or top_k above num_experts.
        """
        tokens, hidden = sizes("num_tokens", num_tokens), sizes("hidden_size", hidden_size)
        width, chosen = sizes("intermediate_size", intermediate_size), sizes("top_k", top_k)
        experts = sizes("num_experts", num_experts)
        if np.any(chosen > experts):
            raise ConfigError("top_k must be at most num_experts")
        pairs = tokens * chosen
        visited = experts * (1.0 - (1.0 - chosen / experts) ** tokens)
        rows_each = pairs / visited
        tile_rows = np.clip(
            2.0 ** np.ceil(np.log2(np.maximum(rows_each, 1.0))),
            _SMALLEST_TILE_ROWS,
            _LARGEST_TILE_ROWS,
        )
        rows = visited * np.maximum(tile_rows, rows_each + tile_rows / 2.0)
        expert_elements = _MATRICES * hidden * width
        moved = visited * expert_elements
        moved = moved + self.activation_weight * pairs * (2.0 * hidden + _MATRICES * width)
        memory_s = _ELEMENT_BYTES * moved / self.hbm_bytes_per_s
        compute_s = 2.0 * expert_elements * rows / self.flops_per_s
        joined_s = smooth_max(memory_s, compute_s, self.p_norm)
        return as_times(self.launch_s + self.expert_s * experts + joined_s)
