"""What a reader of the studies of executors must know."""

WITHDRAWN = (
    "The paper whose mechanism kv_rm has (KV-RM, arXiv 2605.09735) was withdrawn by its authors "
    "(v2, 30 June 2026): no number of it is a target, and none is quoted"
)
"""Comes first wherever findings are printed."""

COMMON = (
    WITHDRAWN,
    "as_measured: the host time fitted to measured vLLM servers, which run CUDA graphs; the "
    "executors take the one replay out of it and put their own launches in (docs/executors.md)",
    "constants of executors are POLICIES 3's (ours), measured by nobody: orders of magnitude "
    "count, small differences do not",
    "kv_rm reads the last 4,096 tokens of a context and nothing before: what that does to answers "
    "is not modelled",
    "static_graph shares nothing between requests and refuses what is longer than a slot",
    "reserved KV: what nobody else can use, mean over time, per GPU; groups: transfers to staging "
    "per step; fragmentation: neighbours in block tables that do not follow one another",
    "every executor has the same draws; ± is half of the 95 % interval of the mean over the seeds",
)
