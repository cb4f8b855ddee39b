"""What a reader of `validate_vllm_a100` must know: what is fitted, assumed and not told apart."""

from collections.abc import Mapping, Sequence

from experiments.studies.runs import Simulated
from experiments.studies.vllm_a100.hit_share import (
    NEARLY_AS_GOOD_RATIO,
    HitShare,
    relative_error,
    root_mean_square,
)
from experiments.studies.vllm_a100.points import METRICS, MOST_BLOCKS, POINTS, Run, share_of
from experiments.studies.vllm_a100.scan import Found


def notes_of(fit: HitShare, variants: Sequence[Run], scan: Found) -> tuple[str, ...]:
    """All notes, one line each.

    Args:
        fit: the fitted share.
        variants: runs with evenly spaced and with Poisson arrivals.
        scan: what was simulated on the way to it.
    """
    run, poisson = variants[:2]
    best = root_mean_square(fit.errors[fit.blocks])
    near = fit.nearly_as_good
    lines = [
        f"fitted: the hit share, {fit.blocks} of {MOST_BLOCKS} KV blocks "
        f"({share_of(fit.blocks):.3f} of the prompt), by least squares on the relative ITL errors "
        f"of the two 8B points (root mean square {100 * best:.1f} %)",
        "not fitted here: kernel times and the 1 ms of host time per step of the profile; the "
        "latter was chosen on A100 and H100 points before, so the absolute level is not wholly "
        "independent of data like these",
        f"the 8B points hardly fix the share: {share_of(near[0]):.2f} to {share_of(near[-1]):.2f} "
        f"lie within {100 * NEARLY_AS_GOOD_RATIO:g} points of the best fit, and least absolute "
        f"errors would choose {share_of(fit.of_least_absolute):.2f}{_errors_at(fit, scan)}",
        "judged with evenly spaced arrivals, as the published profile of this load says (for other "
        "rates); but the measured E2E percentiles spread more, those of 70B at 6/s as with Poisson "
        "arrivals. It matters: that run is near saturation, where a few more requests cost much",
        "a hit is a prefix that the group shares; the real load repeats prompts of users too",
        "TTFT is reported, not judged: what of the measured one is API server and client is not "
        "known; prefill is TTFT less queueing where there is no front end",
        f"{run.seconds:g} s of load per point; ± is half of the 95 % interval over "
        f"{run.num_seeds} seeds ({poisson.num_seeds} with Poisson arrivals); with even spacing "
        "seeds only change which group comes when",
    ]
    return tuple(lines)


def _errors_at(fit: HitShare, scan: Found) -> str:
    """The error of all four points at these shares, where all were simulated."""
    near = fit.nearly_as_good
    numbers = (near[0], near[-1], fit.of_least_absolute)
    if not all(point.label in scan[blocks] for blocks in numbers for point in POINTS):
        return " (size=full shows the 70B points there)"
    errors = [f"{100 * _four_point_error(scan[blocks]):.1f} %" for blocks in numbers]
    return f"; the error of the four points is {errors[0]}, {errors[1]} and {errors[2]} there"


def _four_point_error(found: Mapping[str, Simulated]) -> float:
    """Mean absolute ITL error, a ratio."""
    errors = (relative_error(point, found[point.label].mean(METRICS[0])) for point in POINTS)
    return sum(map(abs, errors)) / len(POINTS)
