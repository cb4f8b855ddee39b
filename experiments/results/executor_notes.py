"""What a reader must know of an executor: what it reserves, and what it leaves out."""

from typing import Any

import numpy as np

from experiments.deployment import Deployment
from experiments.results.transform_notes import counted
from sim.records import SimulationResult
from sim.units import GIB


def reserved_line(deployment: Deployment) -> str | None:
    """KV memory that stands reserved whatever runs, in one line; None if there is none."""
    fitting = deployment.fitting
    if not fitting.standing_bytes:
        return None
    beside = " beside the blocks in use" if fitting.reserves_blocks else ""
    return (
        f"executor: {fitting.max_num_seqs:,} slots; {fitting.standing_bytes / GIB:.2f} GiB per GPU "
        f"stand reserved{beside}"
    )


def window_flags(result: SimulationResult, deployment: Deployment) -> list[dict[str, Any]]:
    """Requests whose oldest tokens are not read, because they lie before the near window."""
    window = deployment.fitting.near_window_tokens
    if window is None:
        return []
    workload = result.workload
    is_cut = workload.prompt_tokens + workload.output_tokens - 1 > window
    num_cut = int(np.count_nonzero(is_cut & result.requests.is_completed))
    if not num_cut:
        return []
    who = counted(num_cut, "request is", "requests are")
    text = (
        f"{who} longer than the {window:,} tokens that a decode reads: what leaving out the rest "
        "does to answers is not modelled"
    )
    flag = {"flag": "context_beyond_near_window", "near_window_tokens": window}
    return [{**flag, "num_requests": num_cut, "text": text}]
