"""What a reader of any study of Feather must know."""

from experiments.studies.feather.load import SCALES
from experiments.studies.measured import Scale

_COMMON = (
    "Feather as its public code has it (docs/policies/feather.md): learner ucb1, 50 tokens a "
    "chunk, reward step_time; its tables start empty unless said, and it learns from the warm "
    "start too; where all requests are there at once it has few occasions to learn",
    "in a warm cache LPM finds the same match for every prompt, and goes by arrival",
    "the GPU's kernels are transferred from other GPUs, and nobody measured them on this one; one "
    "constant was fitted to decode times of an RTX 6000 Ada (docs/validation.md)",
    "a claim counts widened by the percentage behind its verdict; it agrees if the whole interval "
    "lies within it, disagrees if nothing of the interval does, else it is not distinguishable",
    "tags: [paper] its own words, [note] a third party's summary, [independent] somebody else's "
    "measurement, [forms] what our own formulas were expected to give",
    "every policy has the same draws; ± is half of the 95 % interval of the mean over the seeds",
)


def notes_of(size: str, *own: str) -> tuple[str, ...]:
    """The size, what is special to a study, and what holds for all of them."""
    scale = SCALES[size]
    return (f"size={size}: {scale_text(scale)}{_less(size)}", *own, *_COMMON)


def seeds_note(size: str, own: str) -> str:
    """The size of a study whose jobs have another number of requests, `own` in words."""
    return f"size={size}: {own}, {SCALES[size].num_seeds} seeds{_less(size)}"


def scale_text(scale: Scale) -> str:
    """A scale in words."""
    return f"{scale.num_requests:,} requests a job, {scale.num_seeds} seeds"


def sizes_of(jobs: str, quick: str, full: str) -> dict[str, str]:
    """What each size of a study runs.

    Args:
        jobs: the jobs, in words.
        quick: about how long the quick size takes.
        full: likewise.
    """
    times = {"quick": quick, "full": full}
    return {size: f"{jobs}; {scale_text(SCALES[size])} ({times[size]})" for size in SCALES}


def _less(size: str) -> str:
    return " (size=full has more seeds)" if size == "quick" else ""
