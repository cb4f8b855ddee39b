"""What a step costs: devices, model shapes, work and cost models.

`load_profile` gives a device and the times of its kernels, `load_model` the shape of a model.
"""

from hwmodels.device import load_profile
from hwmodels.model_catalogue import load_model

__all__ = ["load_model", "load_profile"]
