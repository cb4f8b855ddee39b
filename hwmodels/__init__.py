"""What a step costs: devices, model shapes, work and cost models.

`load_profile` gives a device and the times of its kernels, `load_model` the shape of a model.
"""

from sim.compiled import search_path

COMPILED = (
    "calibrated",
    "calibrated_ledger",
    "decode_pricer",
    "mixed_pricer",
    "roofline",
    "roofline_ledger",
)
"""Modules that `flocksim-compile` translates."""

__path__ = search_path(__name__, __path__)

from hwmodels.device import load_profile  # noqa: E402
from hwmodels.model_catalogue import load_model  # noqa: E402

__all__ = ["COMPILED", "load_model", "load_profile"]
