"""What a reader of `validate_ada_cascade` must know."""

NOTES = (
    "fitted, in the profile and not by this command: one constant, the rate of one thread block of "
    "decode attention (13.2 GB/s), to the row with cascade off at 100 users; all other kernel "
    "constants are transferred from other GPUs, and nobody measured them on this one",
    "the error counts from the middle of the measured range",
    "in the packaged profile the rate of a thread block is the bound with cascade off, once L2 "
    "serves the prefix: any midpoint of the L2 curve from 40 to 105 MiB gives the same time, so "
    "this anchor does not check the midpoint; that L2 serves the prefix at all it does check",
    "the two rows come from two versions of vLLM: that cascade is the cause is inferred",
    "500 users are reported only; likely reasons: host time that grows with the batch, prompts of "
    "10,000 tokens to tokenise and to look up, decoding without whole CUDA graphs",
    "throughput is lower on the real server than its TPOT allows: the rest of a request's time is "
    "TTFT, most of it outside the GPU; the constants of the default front end are those of another "
    "server, and with it users fall out of step, so that prefills slow more decodes",
    "all lengths are fixed and all users start at once: there is nothing random, and no interval",
)
