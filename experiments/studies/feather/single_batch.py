"""A batch whose requests all share one prefix, but for one request that does not."""

from collections.abc import Mapping

from experiments.studies.feather.cell import MACHINE
from experiments.studies.feather.load import WARM_MARGIN_S, WARM_S_PER_TOKEN
from experiments.studies.runs import Case

OWN_TOKENS, OUTPUT_TOKENS = 20, 50


def batch_case(
    batch: int, prefix_tokens: int, *, has_deviator: bool, machine: Mapping[str, str]
) -> Case:
    """A job: so many requests at once, of the same length; nothing in it is random.

    Args:
        batch: requests, the deviating one included.
        prefix_tokens: tokens of the shared prefix, and of the one of the deviating request.
        has_deviator: whether one of them has a prefix of its own, which is warm too.
        machine: what differs from the standard machine.
    """
    sizes = {"batch": batch - 1, "chat": 1} if has_deviator else {"batch": batch}
    values = {**MACHINE, "trace": "mix", "trace.warmup_requests": str(len(sizes)), **machine}
    start_s = WARM_MARGIN_S + WARM_S_PER_TOKEN * 2 * prefix_tokens
    for part, num_requests in sizes.items():
        values[f"trace@trace.parts.{part}.trace"] = "prefix_groups"
        values |= {
            f"trace.parts.{part}.trace.{key}": str(value)
            for key, value in (
                *(("num_groups", 1), ("num_requests", num_requests), ("arrivals", "all_at_once")),
                *(("prefix_tokens", prefix_tokens), ("suffix", OWN_TOKENS)),
                *(("output", OUTPUT_TOKENS), ("warm_start_s", start_s)),
            )
        }
    overrides = [f"{key}={value}" for key, value in values.items()]
    if not has_deviator:
        overrides.append("~trace.parts.chat")
    kernel = values["kernel"]
    title = "one_deviates" if has_deviator else "all_share"
    policy = values.get("batching", "fcfs")
    return Case(f"{batch}x{prefix_tokens}-{title}-{kernel}-{policy}", tuple(overrides))
