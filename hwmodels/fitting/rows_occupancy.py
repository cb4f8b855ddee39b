"""Fit of the shared-prefix kernel: rates, drift, and how many thread blocks run on a processor.

The number of blocks is whole and makes waves step, so that no gradient finds it: each number is
tried, all else fitted, and the errors of the fits say how far the others are excluded. Drift is
started from several values, for it has no effect where nothing misses.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from hwmodels.device import DeviceSpec
from hwmodels.fitting.holdout import shape_numbers
from hwmodels.fitting.least_squares import MAX_RELATIVE_ERROR, FitResult, fit_log_error
from hwmodels.fitting.parameter import Parameter
from hwmodels.fitting.recipe import FittedKernel, Recipe, Values
from hwmodels.fitting.rounding import rounded
from hwmodels.fitting.rows_errors import distance_of, fit_with_errors, moved_squares
from hwmodels.fitting.rows_recipes import everything, with_priors
from hwmodels.fitting.rows_shared_prefix import unaware_s
from hwmodels.kernels.l2_curve import L2Curve
from hwmodels.kernels.shared_prefix import SharedPrefixModel
from hwmodels.measurements.rows import MeasuredRows

BLOCKS_PER_SM = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)
"""Thread blocks that may run on one processor together."""

_DRIFT = "drift_tokens"
_DRIFT_STARTS = (0.25, 1.0, 4.0)
"""Starting points of the drift, times its prior."""

_SHAPE = ("groups", "members", "prefix_tokens", "num_heads", "num_kv_heads")
_SIBLINGS = frozenset({"l2", "decode_attention", "prefill_attention"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """Thread blocks at once on the whole GPU.

    Attributes:
        cta_slots: the number with the smallest error, or the prior where it is not identified.
        standard_error: None where the rows do not identify it.
    """

    cta_slots: int
    standard_error: float | None


def shared_prefix_rows_recipe(
    device: DeviceSpec,
    prior: SharedPrefixModel,
    starts: Mapping[str, float] = MappingProxyType({}),
) -> Recipe[SharedPrefixModel]:
    """Recipe for the kernel that ignores sharing; the slots are those of the prior.

    Args:
        device: the GPU.
        prior: holds the L2 curve, attention forms and packed kernel of the result too.
        starts: first guesses that differ from the prior.
    """
    rate = device.hbm_bytes_per_s
    own = (
        Parameter(name="hbm_bytes_per_s", start=0.85 * rate, low=0.2 * rate, high=rate),
        Parameter(name="launch_s", start=8e-6, low=5e-7, high=1e-4),
        Parameter(name="p_norm", start=3.6, low=1.0, high=20.0),
        Parameter(name="flash_pat_gqa_bytes_per_s", start=rate, low=0.2 * rate, high=20 * rate),
        Parameter(name="flash_pat_mha_bytes_per_s", start=rate, low=0.2 * rate, high=20 * rate),
        Parameter(name="drift_tokens", start=128.0, low=2.0, high=1e5),
    )
    parameters = tuple(
        replace(one, start=starts.get(one.name, one.start)) for one in with_priors(own, prior)
    )

    def build(values: Values) -> SharedPrefixModel:
        own: dict[str, Any] = dict(values)
        return replace(prior, **own)

    return Recipe(
        kernel="shared_prefix",
        parameters=parameters,
        build=build,
        predict_s=unaware_s,
        shape_columns=_SHAPE,
        valid_columns=(
            "groups",
            "members",
            "prefix_tokens",
            "suffix_tokens",
            "num_heads",
            "num_kv_heads",
        ),
        in_scope=everything,
        scope="paged decode over groups of equal prefixes, not split; flash_pat stands for it",
        siblings=_SIBLINGS,
    )


def fit_shared_prefix_rows(
    device: DeviceSpec,
    prior: SharedPrefixModel,
    rows: MeasuredRows,
    l2_errors: Mapping[str, float | None],
) -> FittedKernel[SharedPrefixModel]:
    """Fit rates, drift and slots.

    The L2 curve was fitted before, and its errors enter: a constant that one standard error of the
    curve moves far is not identified.

    Args:
        device: the GPU.
        prior: see `shared_prefix_rows_recipe`.
        rows: of the benchmark.
        l2_errors: standard errors of the prior's L2 curve.

    Raises:
        ConfigError: too few rows.
    """
    found, starts = _occupancy(device, prior, rows)
    prior = replace(prior, cta_slots=found.cta_slots)
    recipe = shared_prefix_rows_recipe(device, prior, starts)
    recipe = replace(recipe, restated=_told(found, device))
    shown = _shows_drift(recipe, rows)
    fitted = fit_with_errors(
        recipe,
        rows,
        lambda used, fit: _l2_squares(used, fit, l2_errors),
        () if shown else ("drift_tokens",),
    )
    return _with_slots(fitted, found)


def _occupancy(
    device: DeviceSpec, prior: SharedPrefixModel, rows: MeasuredRows
) -> tuple[Occupancy, dict[str, float]]:
    """Slots, and where a fit with them starts."""
    results: dict[int, FitResult] = {}
    for blocks in BLOCKS_PER_SM:
        slots = blocks * device.num_sms
        model = replace(prior, cta_slots=slots)
        results[slots] = min(
            (
                _fit(
                    shared_prefix_rows_recipe(device, model, {_DRIFT: factor * prior.drift_tokens}),
                    rows,
                )
                for factor in _DRIFT_STARTS
            ),
            key=lambda result: result.cost,
        )
    costs = {slots: one.cost for slots, one in results.items()}
    found = occupancy_of(costs, num_shapes(rows))
    if found.standard_error is None:
        found = replace(found, cta_slots=prior.cta_slots)
    nearest = min(results, key=lambda slots: abs(slots - found.cta_slots))
    return found, results[nearest].values


def _fit(recipe: Recipe[SharedPrefixModel], rows: MeasuredRows) -> FitResult:
    return fit_log_error(
        lambda values: recipe.predict_s(recipe.build(values), rows.columns),
        rows.time_s,
        recipe.parameters,
        num_starts=1,
    )


def _shows_drift(recipe: Recipe[SharedPrefixModel], rows: MeasuredRows) -> bool:
    """Whether the rows exclude that requests of a wave run in step.

    Below some drift nothing misses and all values are alike, which no derivative at the best value
    shows. The loss without drift must be larger by as much as a constant known to 30 % asks for.
    """
    in_step = replace(
        recipe,
        parameters=tuple(one for one in recipe.parameters if one.name != _DRIFT),
        build=lambda values: recipe.build({_DRIFT: 1.0} | dict(values)),
    )
    distance = distance_of(_fit(in_step, rows).cost, _fit(recipe, rows).cost, num_shapes(rows))
    return distance * MAX_RELATIVE_ERROR > 1.0


def _l2_squares(
    recipe: Recipe[SharedPrefixModel],
    fitted: FittedKernel[SharedPrefixModel],
    l2_errors: Mapping[str, float | None],
) -> dict[str, float]:
    """Squares of what one standard error of the L2 curve changes; 30 % where it has none."""
    curve = fitted.model.l2
    assert curve is not None
    recipes = []
    for name in ("midpoint_bytes", "log_width"):
        value, error = getattr(curve, name), l2_errors.get(name)
        moved = value + (MAX_RELATIVE_ERROR * value if error is None else error)
        other = replace(curve, **{name: moved})

        def build(values: Values, other: L2Curve = other) -> SharedPrefixModel:
            return replace(recipe.build(values), l2=other)

        recipes.append(replace(recipe, build=build))
    return moved_squares(fitted, recipes)


def occupancy_of(costs: Mapping[int, float], num_shapes: int) -> Occupancy:
    """Slots of the smallest loss, and how well its neighbours are excluded.

    Args:
        costs: loss of the fit by slots.
        num_shapes: shapes in the rows.
    """
    slots = sorted(costs)
    best = min(slots, key=lambda number: (costs[number], number))
    place = slots.index(best)
    neighbours = [slots[at] for at in (place - 1, place + 1) if 0 <= at < len(slots)]
    distances = [distance_of(costs[other], costs[best], num_shapes) for other in neighbours]
    gaps = [abs(other - best) for other in neighbours]
    if not all(
        distance * MAX_RELATIVE_ERROR * best >= gap
        for distance, gap in zip(distances, gaps, strict=True)
    ):
        return Occupancy(cta_slots=best, standard_error=None)
    error = max(gap / distance for distance, gap in zip(distances, gaps, strict=True))
    return Occupancy(cta_slots=best, standard_error=error)


def num_shapes(rows: MeasuredRows) -> int:
    """Shapes in rows of shared prefixes."""
    shapes, _ = shape_numbers(*(rows.columns[name] for name in _SHAPE))
    return len(shapes)


def _told(found: Occupancy, device: DeviceSpec) -> str:
    tried = f"{BLOCKS_PER_SM[0]} to {BLOCKS_PER_SM[-1]} blocks per processor"
    if found.standard_error is None:
        return f"Of {tried}, the rows do not identify how many: cta_slots kept at the prior."
    return f"Of {tried}, {found.cta_slots / device.num_sms:g} have the smallest error."


def _with_slots(
    fitted: FittedKernel[SharedPrefixModel], found: Occupancy
) -> FittedKernel[SharedPrefixModel]:
    """The fit with the error of its slots, or with their not being identified."""
    error, result = found.standard_error, fitted.result
    stated = dict(fitted.provenance.standard_errors)
    stated["cta_slots"] = None if error is None else rounded(error, 3)
    if error is None:
        result = replace(result, not_identified=(*result.not_identified, "cta_slots"))
    provenance = replace(fitted.provenance, standard_errors=stated)
    return replace(fitted, provenance=provenance, result=result)
