"""Figures of one calibration: L2 curve, roofline, shared prefixes; each where there are rows."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from experiments.calibrate.l2_figure import l2_figure
from experiments.calibrate.prefix_figure import prefix_figure
from experiments.calibrate.roofline_figure import roofline_figure
from hwmodels.fitting.validation import FITTED, Comparison
from hwmodels.kernels.models import KernelModels

FILES = ("l2_curve.png", "roofline.png", "shared_prefix_heat_map.png")
"""Names of the pictures, in the order of `calibration_figures`."""


def calibration_figures(
    models: KernelModels, found: Sequence[Comparison]
) -> dict[str, Figure | None]:
    """Pictures by file name; None where a profile or its measurements lack what one shows."""
    rows = {one.kernel: one for one in found if one.subset == FITTED}
    l2, tree = rows.get("l2"), rows.get("shared_prefix")
    has_groups = tree is not None and {"members", "prefix_tokens"} <= tree.columns.keys()
    pictures = (
        l2_figure(models.device, models.l2, l2) if models.l2 and l2 else None,
        roofline_figure(models, list(rows.values())) if models.gemm and models.l2 else None,
        prefix_figure(models.device, tree) if tree is not None and has_groups else None,
    )
    return dict(zip(FILES, pictures, strict=True))
