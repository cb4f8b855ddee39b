"""What a reader of any study of LMETRIC must know."""

from experiments.studies.lmetric.paired import NUM_WINDOWS
from experiments.studies.lmetric.setting import Scale


def notes_of(scale: Scale) -> tuple[str, ...]:
    """What holds for all of these studies.

    Args:
        scale: how much was run.
    """
    return (
        f"{scale.num_seeds} runs a job: of a recording the first is as recorded (its first rows), "
        "the others draw its stretches anew; of generated traces each has a seed of its own; the "
        f"first {scale.num_warm} requests of a run warm the caches and count in no figure",
        "differences are in percent of the reference, on the same requests; their intervals are 95 "
        f"% bootstraps over {NUM_WINDOWS} windows of each run, each comparison on its own: of "
        "twenty, one excludes 0 by chance; hits, imbalance and goodput have t intervals over runs",
        "the percentage behind a difference's verdict is its noise floor, the farthest end of the "
        "interval of lmetric against itself with a moving order of ties; higher and lower: the "
        "whole interval lies beyond it, within noise: beyond 0 only",
        "a claim counts widened by the percentage behind its verdict, of its own size; agrees: the "
        "interval or its middle lies within it; smaller, larger: the sign is as claimed, the size "
        "is not; opposite: the sign is not",
        "tags: [paper] its own words, [note] a third party's summary, [code] published by the "
        "authors beside their code, [independent] somebody else's measurement",
        "load is a share of what the cluster finishes per second under least_requests when all "
        "requests of a longer trace are there at once; routers that find more prefixes have more "
        "capacity",
        "vLLM v1 as the paper's (60,000 tokens, 256 requests, 0.85 of the memory); no kernel was "
        "measured on an H20: they are scaled from other Hoppers; prompts above 57,000 tokens are "
        "cut",
    )
