"""What a reader of the figures must know: each flag is a name, numbers and one sentence."""

from collections.abc import Mapping
from math import inf
from typing import Any

import numpy as np

from experiments.deployment import Deployment
from experiments.results.executor_notes import window_flags
from experiments.results.fitted_ranges import range_flags
from experiments.results.transform_notes import counted, told_transform
from experiments.schema.job import TraceOptions
from hwmodels.calibrated import CalibratedCost
from sim.executed_cost import ExecutedCost
from sim.front_end_metrics import front_end_load
from sim.recorder import OVER_CAPACITY, OVER_MODEL_LEN, REFUSED
from sim.records import SimulationResult
from traces.transforms.options import window_bounds

Flag = dict[str, Any]


def flags_of(result: SimulationResult, deployment: Deployment, options: TraceOptions) -> list[Flag]:
    """Flags of a run, in a fixed order."""
    found = [
        *_trace_flags(options),
        *_transform_flags(result.workload.provenance),
        *_loop_flags(result),
        *_context_flags(result, deployment),
        *_reject_flags(result, deployment),
        *_front_end_flags(result),
        *window_flags(result, deployment),
    ]
    num_short = int(np.count_nonzero(result.workload.output_tokens == 1))
    if num_short:
        who = counted(num_short, "request has", "requests have")
        text = f"{who} one output token and no TPOT"
        found.append({"flag": "one_token_outputs", "num_requests": num_short, "text": text})
    if deployment.capacity is None:
        num_blocks = deployment.spec.num_gpu_blocks
        text = f"{num_blocks:,} KV blocks as given, not from the memory of the GPU"
        found.append({"flag": "num_gpu_blocks_given", "num_gpu_blocks": num_blocks, "text": text})
    decode = deployment.decode
    if decode is not None and decode.capacity is None and deployment.capacity is not None:
        num_blocks = decode.spec.num_gpu_blocks
        text = f"{num_blocks:,} KV blocks of decode instances as given, not from their memory"
        found.append(
            {"flag": "decode_num_gpu_blocks_given", "num_gpu_blocks": num_blocks, "text": text}
        )
    found += _memory_flags(deployment)
    found += _overlay_flags(deployment)
    found += _kernel_flags(deployment)
    found += _fit_flags(deployment)
    found += range_flags(result, deployment)
    if not result.requests.is_completed.any():
        found.append({"flag": "no_request_finished", "text": "no request finished"})
    if result.is_interrupted:
        text = f"interrupted at {result.end_s:.6g} s of simulated time"
        found.append({"flag": "interrupted", "end_s": result.end_s, "text": text})
    return found


def is_told(flag: Mapping[str, Any]) -> bool:
    """Whether a flag is worth a line: not if it concerns no request, or hardly any GPU time."""
    return flag.get("num_requests") != 0 and not flag.get("is_minor")


def _trace_flags(options: TraceOptions) -> list[Flag]:
    found: list[Flag] = []
    if options.window_s is not None:
        start_s, end_s = window_bounds(options.window_s)
        text = f"only arrivals from {start_s:g} s to {end_s:g} s of the trace"
        found.append({"flag": "trace_window", "window_s": options.window_s, "text": text})
    if options.limit is not None:
        which = "first request" if options.limit == 1 else f"first {options.limit:,} requests"
        text = f"only the {which} of the trace"
        found.append({"flag": "trace_limit", "limit": options.limit, "text": text})
    if options.rate_scale != 1:
        text = f"arrivals {options.rate_scale:g} times as fast as in the trace"
        found.append({"flag": "trace_rate_scaled", "rate_scale": options.rate_scale, "text": text})
    return found


_TOLD_BY_OPTIONS = ("window_s", "limit", "rate_scale")


def _transform_flags(provenance: Mapping[str, Any]) -> list[Flag]:
    """Everything else that was done to the trace."""
    found: list[Flag] = []
    for name, value in provenance.get("transforms", {}).items():
        if name not in _TOLD_BY_OPTIONS:
            text = told_transform(name, value)
            found.append({"flag": f"trace_{name}", name: value, "text": text})
    return found


def _loop_flags(result: SimulationResult) -> list[Flag]:
    """Arrivals that the cluster decides, and not the trace."""
    workload = result.workload
    if not workload.is_closed_loop:
        return []
    num_after = 0 if workload.after is None else int(np.count_nonzero(workload.after >= 0))
    users = workload.concurrency
    parts: list[str] = []
    if users is not None:
        which = " that follow no other" if num_after else ""
        what = "all that its last one led to has" if num_after else "its last one has"
        who = counted(users, "user sends", "users send")
        parts.append(f"{who} the requests{which}, each the next when {what} ended")
    if num_after:
        arrive = counted(num_after, "request arrives", "requests arrive")
        they = "it follows" if num_after == 1 else "they follow"
        parts.append(f"{arrive} when the one {they} has ended")
    text = "; ".join(parts)
    return [{"flag": "closed_loop", "concurrency": users, "num_after": num_after, "text": text}]


def _front_end_flags(result: SimulationResult) -> list[Flag]:
    """A front end that is offered more than it can do, or hardly less."""
    load = front_end_load(result)
    if load is None or not load.is_saturated:
        return []
    offered_in = load.offered_in_ratio
    way_in = f"{offered_in:.2f} s" if offered_in < inf else "all requests at once"
    text = (
        "the front end is saturated, so latencies grow with the length of the trace: per second, "
        f"{way_in} of work on the way in, {load.offered_out_ratio:.2f} s on the way out, "
        f"{load.busy_ratio:.2f} s in all"
    )
    ratios = {
        "offered_in_ratio": offered_in if offered_in < inf else None,
        "offered_out_ratio": load.offered_out_ratio,
        "busy_ratio": load.busy_ratio,
    }
    return [{"flag": "frontend_saturated", **ratios, "text": text}]


def _kernel_flags(deployment: Deployment) -> list[Flag]:
    """Kernels that price the steps although their constants were measured on another device."""
    from hwmodels.fitting.transfer import donor_of

    if not isinstance(deployment.gpu_cost, CalibratedCost):
        return []
    records = deployment.device.kernels.provenance
    in_use = sorted(deployment.gpu_cost.kernels_in_use)
    names = [name for name in in_use if records[name].is_extrapolated]
    if not names:
        return []
    were = "was" if len(names) == 1 else "were"
    device = deployment.device.name
    text = f"extrapolated: {', '.join(names)} of {device} {were} not measured on it"
    found = {name: donor for name in names if (donor := donor_of(records[name])) is not None}
    donors = sorted(set(found.values()))
    if len(found) == len(names) and len(donors) == 1:
        text += f" but on {donors[0]}, and scaled"
    elif donors:
        parts = [f"{name} scaled from {donor}" for name, donor in found.items()]
        text += f" ({', '.join(parts)})"
    return [{"flag": "extrapolated", "kernels": names, "devices": donors, "text": text}]


def _fit_flags(deployment: Deployment) -> list[Flag]:
    """Kernels that price the steps although their form does not describe their measurements."""
    if not isinstance(deployment.gpu_cost, CalibratedCost):
        return []
    records = deployment.device.kernels.provenance
    errors = {
        name: errors
        for name in sorted(deployment.gpu_cost.kernels_in_use)
        if (errors := records[name].heldout_mape) is not None and records[name].is_poorly_fitted
    }
    if not errors:
        return []
    parts = [f"{name} {100 * error:,.0f} %" for name, error in errors.items()]
    text = (
        f"poorly fitted kernels of {deployment.device.name}: error on held-out shapes "
        f"{', '.join(parts)}"
    )
    return [{"flag": "poorly_fitted", "kernels": list(errors), "text": text}]


def _overlay_flags(deployment: Deployment) -> list[Flag]:
    """Constants that were fitted to a server with steps priced in another way."""
    fitted, fidelity = deployment.device.fitted_fidelity, deployment.fidelity
    if fitted in ("", fidelity):
        return []
    text = (
        f"constants of {deployment.device.title} were fitted with hardware.fidelity={fitted} and "
        f"take up what that lacks: they are wrong for {fidelity}"
    )
    flag: Flag = {"flag": "overlay_of_other_fidelity", "fidelity": fitted}
    return [{**flag, "text": text}]


def _memory_flags(deployment: Deployment) -> list[Flag]:
    """More KV blocks given than the whole memory of the GPU holds."""
    given, fitting = deployment.spec.num_gpu_blocks, deployment.num_fitting_blocks
    if fitting is None or given <= fitting:
        return []
    text = (
        f"engine.num_gpu_blocks={given} are more KV blocks than fit: {fitting:,} computed for all "
        "of the GPU's memory"
    )
    return [{"flag": "more_kv_blocks_than_fit", "num_fitting_blocks": fitting, "text": text}]


def _context_flags(result: SimulationResult, deployment: Deployment) -> list[Flag]:
    """Requests beyond the model's context, and outputs cut by a limit that is enforced."""
    workload = result.workload
    tokens = workload.prompt_tokens + workload.output_tokens
    limit = deployment.spec.max_model_len
    if limit is not None:
        is_cut = (tokens > limit) & (workload.prompt_tokens < limit)
        num_cut = int(np.count_nonzero(is_cut))
        what = counted(num_cut, "output was", "outputs were")
        text = f"{what} cut at engine.max_model_len={limit:,}"
        return [{"flag": "outputs_cut", "num_requests": num_cut, "text": text}] if num_cut else []
    context = deployment.shape.max_context_tokens
    num_over = int(np.count_nonzero(tokens > context))
    if not num_over:
        return []
    share = num_over / max(1, workload.num_requests)
    text = (
        f"engine.max_model_len is not enforced: {share:.1%} of the requests are longer than the "
        f"model's {context:,} tokens"
    )
    flag: Flag = {"flag": "max_model_len_not_enforced", "max_context_tokens": context}
    return [{**flag, "num_requests": num_over, "share_ratio": share, "text": text}]


def _reject_flags(result: SimulationResult, deployment: Deployment) -> list[Flag]:
    spec = deployment.spec
    kv_tokens = (spec.least_gpu_blocks - 1) * spec.block_tokens
    slot_tokens = spec.cost.max_request_tokens if isinstance(spec.cost, ExecutedCost) else None
    holder = "KV cache" if slot_tokens is None else "a slot"
    reasons = {
        OVER_CAPACITY: (
            "over_kv_capacity",
            ("it needs", "they need"),
            f" more than the {slot_tokens or kv_tokens:,} tokens of {holder}",
        ),
        OVER_MODEL_LEN: (
            "over_max_model_len",
            ("it has", "they have"),
            " a prompt of engine.max_model_len or more",
        ),
        REFUSED: (
            "refused_at_admission",
            ("it was", "they were"),
            " refused by the admission policy",
        ),
    }
    found: list[Flag] = []
    for reason, (name, (it, they), why) in reasons.items():
        num = int(np.count_nonzero(result.requests.reject_reason == reason))
        if num:
            rejected = counted(num, f"request rejected: {it}", f"requests rejected: {they}")
            text = f"{rejected}{why}"
            found.append({"flag": name, "num_requests": num, "text": text})
    return found
