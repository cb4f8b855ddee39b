"""What a reader of any study of AlignedServe must know."""

from experiments.studies.alignedserve.mixes import SCALES

_COMMON = (
    "AlignedServe's code is not public: what is ours is in docs/policies/aligned_serve.md; nothing "
    "was tuned to come nearer to a claim",
    "every system has two instances (OPT-30B: of two GPUs): one prefill and one decode, or two "
    "that do both behind routing=jsq",
    "distserve: KV pulled by the decode side, first come first served; vllm_v1: chunked prefill "
    "with the defaults of a server; fastgen: steps of 768 tokens",
    "Poisson: at 70 % of the rate at which distserve finishes requests that are there at once, the "
    "same for all systems of a setting",
    "a request is ready when it joins a decode batch; where one instance does both, with its first "
    "token; prompts up to 1,000 tokens are short",
    "what a request waits between its first token and the decode batch is part of its TPOT, not of "
    "its TPOT in the decode batch; the published TTFT (up to 30 s) suggests that AlignedServe "
    "counts it there: both readings are given",
    "OPT's attention has 40 KV heads where decode kernels were measured up to 8: its step times "
    "are extrapolated",
    "a claim counts widened by the percentage behind its verdict; it agrees if the whole interval "
    "lies within it, disagrees if nothing of the interval does, else it is not distinguishable",
    "tags: [paper] its own words, [note] a third party's summary, [forms] what our own formulas "
    "were expected to give",
    "every system has the same draws; ± is half of the 95 % interval of the mean over the seeds",
)


def notes_of(size: str, *own: str) -> tuple[str, ...]:
    """The size, what is special to a study, and what holds for all of them."""
    return (f"size={size}: {scale_text(size)}", *own, *_COMMON)


def scale_text(size: str) -> str:
    """A scale in words."""
    scale = SCALES[size]
    return f"{scale.num_requests:,} requests a job, {scale.num_seeds} seeds"


def sizes_of(quick: str, full: str) -> dict[str, str]:
    """What each size of a study runs, in words."""
    return {
        "quick": f"{quick}; {scale_text('quick')} (under a CPU minute)",
        "full": f"{full}; {scale_text('full')}",
    }
