"""The summary of a run on the terminal."""

import sys
from collections.abc import Mapping
from math import isnan
from typing import TYPE_CHECKING, Any

from experiments.deployment import Deployment
from experiments.job import JobRun
from experiments.kv_tiers import loads_line, tiers_line
from experiments.quantities import amount, count, digits, duration, percent, rate
from experiments.results.executor_notes import reserved_line
from experiments.results.flags import is_told
from experiments.results.gpu_time import told_shares
from experiments.results.handover import handover_line, roles_line
from sim.compiled import form_in_use, is_stale

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

REGIME_HINTS = {
    "stable": "the cluster keeps up with the arrivals",
    "backlogged": (
        "draining the queue after the last arrival took over 10 % of the run: averages depend on "
        "where the trace stops; use a longer trace, more instances or a lower rate"
    ),
    "overloaded": (
        "arrivals exceed what the cluster can serve, so queues grow as long as the trace goes on: "
        "latencies say more about the length of the trace than about the policy; add instances or "
        "lower trace.rate_scale"
    ),
    "closed_loop": (
        "users wait for their answers, so arrivals slow down with the cluster: compare throughput, "
        "and latencies at an equal number of users only"
    ),
}

_LATENCIES = {
    "TTFT": "ttft",
    "TPOT": "tpot",
    "ITL": "itl",
    "E2E": "e2e",
    "queue": "queue",
}

_TTFT_PARTS = {
    "front end in": "frontend_in_mean_s",
    "queue": "queue_mean_s",
    "prefill": "prefill_mean_s",
    "front end out": "frontend_out_mean_s",
}

PLAIN_WIDTH = 110
"""Columns where the output is no terminal."""


def make_console() -> "Console":
    """Console on standard output; plain text of a fixed width where that is no terminal."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else PLAIN_WIDTH
    return Console(width=width, markup=False, highlight=False, emoji=False)


def deployment_lines(deployment: Deployment, tensor_parallel: int) -> list[str]:
    """What serves, before anything runs."""
    spec, capacity = deployment.spec, deployment.capacity
    kv_tokens = (spec.num_gpu_blocks - 1) * spec.block_tokens
    gpus = f"{tensor_parallel} x " if tensor_parallel > 1 else ""
    lines = [
        f"{deployment.shape.name} on {spec.num_all_instances} x ({gpus}{deployment.device.name}), "
        f"{spec.num_gpu_blocks:,} KV blocks per instance ({kv_tokens:,} tokens)"
    ]
    lines.append(f"  {capacity.summary()}" if capacity else "  KV blocks as given")
    reserved = reserved_line(deployment)
    if reserved is not None:
        lines.append(f"  {reserved}")
    if spec.disaggregation is not None:
        lines.append(roles_line(spec, spec.disaggregation))
    if spec.tiers is not None:
        lines.append(tiers_line(spec.tiers))
    front_end = spec.front_end
    if front_end is not None:
        lines.append(
            f"  front end: {duration(front_end.delay_s)} + {duration(front_end.request_s)} per "
            f"request, {duration(front_end.token_s)} per prompt token, "
            f"{duration(front_end.hash_block_s)} per KV block, "
            f"{duration(front_end.output_token_s)} per output token"
        )
    return lines


def print_summary(run: JobRun, console: "Console") -> None:
    """Print the figures of a run."""
    metrics = run.metrics
    choices = run.choices
    first_s, last_s = run.result.requests.arrival_span_s
    span_s = None if isnan(first_s) else last_s - first_s
    policies = ", ".join(
        f"{group}={choices[group]}"
        for group in ("routing", "batching", "eviction", "admission")
        if group in choices
    )
    trace = choices.get("trace", run.job.trace.target)
    _print_line(
        console,
        f"{count(metrics['num_requests'])} requests of trace={trace} over {duration(span_s)}; "
        f"{policies}",
    )
    console.print(_latency_table(metrics))
    if "frontend_in_mean_s" in metrics:
        _print_line(console, ttft_line(metrics))
    if "handover_mean_s" in metrics:
        _print_line(console, handover_line(metrics))
    console.print(_figure_table(run))
    tiers = run.deployment.spec.tiers
    if tiers is not None:
        _print_line(console, loads_line(metrics, tiers))
    shares = told_shares(metrics)
    if shares:
        _print_line(console, f"GPU time: {shares}")
    if metrics["scheduler_cpu_ratio"] is not None:
        share = percent(metrics["scheduler_cpu_ratio"])
        _print_line(console, f"scheduler: its CPU time is {share} of the GPU's")
    if run.document["routing"] is not None:
        _print_line(console, decision_line(run.document["routing"]))
    if metrics["num_hotspot_alarms"] is not None:
        _print_line(console, hotspot_line(metrics))
    regime = run.document["regime"]
    if regime is not None:
        _print_line(console, f"regime: {regime} ({REGIME_HINTS[regime]})")
    for flag in run.document["flags"]:
        if is_told(flag):
            _print_line(console, f"note: {flag['text']}")
    _print_line(console, wall_line(run))


def ttft_line(metrics: Mapping[str, Any]) -> str:
    """Mean time to first token and its parts, behind a front end."""
    parts = " + ".join(f"{name} {duration(metrics[key])}" for name, key in _TTFT_PARTS.items())
    return f"TTFT = {parts} (means)"


def decision_line(routing: Mapping[str, Any]) -> str:
    """What other instances would have given the routed requests."""
    return (
        f"decisions: {percent(routing['longer_hit_elsewhere_ratio'])} had a longer hit elsewhere "
        f"({digits(routing['hit_tokens_given_up_mean_tokens'])} tokens given up per request), "
        f"{percent(routing['fewer_requests_elsewhere_ratio'])} fewer requests elsewhere, "
        f"{percent(routing['dominated_choice_ratio'])} an instance better in one and worse in "
        "neither"
    )


def hotspot_line(metrics: Mapping[str, Any]) -> str:
    """What the router's detector of hotspots did."""
    return (
        f"hotspots: {count(metrics['num_hotspot_alarms'])} alarms, "
        f"{count(metrics['num_hotspot_filters'])} filters, "
        f"{count(metrics['num_hotspot_filtered_requests'])} requests kept from the holders"
    )


def _print_line(console: "Console", line: str) -> None:
    """A line that only the terminal wraps."""
    console.print(line, no_wrap=True, overflow="ignore", crop=False)


def wall_line(run: JobRun) -> str:
    """Wall time of each phase and the speed of the simulation."""
    phases = ", ".join(f"{phase} {duration(value)}" for phase, value in run.wall_s.items())
    done = sum(len(one.requests) for one in run.replications)
    if run.is_interrupted:
        ended = ("num_finished", "num_rejected")
        done = sum(int(one.metrics[name] or 0) for one in run.replications for name in ended)
    simulate_s = run.wall_s["simulate"]
    speed = f"; {digits(done / simulate_s)} simulated requests/s" if simulate_s > 0 else ""
    stale = "; its sources have changed since flocksim-compile" if is_stale() else ""
    return f"wall time: {phases}{speed} ({form_in_use()}{stale})"


def _latency_table(metrics: Mapping[str, Any]) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("latency")
    for name in ("mean", "p50", "p90", "p99"):
        table.add_column(name, justify="right")
    for label, key in _LATENCIES.items():
        values = [metrics[f"{key}_{name}_s"] for name in ("mean", "p50", "p90", "p99")]
        table.add_row(label, *map(duration, values))
    return table


def _figure_table(run: JobRun) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), show_header=False)
    pairs = figures(run)
    half = -(-len(pairs) // 2)
    for k in range(half):
        right = pairs[k + half] if k + half < len(pairs) else ("", "")
        table.add_row(*pairs[k], *right)
    return table


def figures(run: JobRun) -> list[tuple[str, str]]:
    """Names and values of everything but latencies."""
    m = run.metrics
    slo = run.job.slo
    blocks = count(m["num_gpu_blocks"])
    front_end = (
        [
            ("front end in", f"{percent(m['frontend_in_busy_ratio'])} busy"),
            ("front end out", f"{percent(m['frontend_out_busy_ratio'])} busy"),
        ]
        if "frontend_busy_ratio" in m
        else []
    )
    return [
        ("finished", f"{count(m['num_finished'])} of {count(m['num_requests'])}"),
        ("rejected", count(m["num_rejected"])),
        ("unfinished", count(m["num_unfinished"])),
        ("makespan", duration(m["makespan_s"])),
        ("requests", rate(m["request_rate_per_s"], "requests")),
        ("output", rate(m["output_tokens_per_s"], "tokens")),
        ("prompts and output", rate(m["total_tokens_per_s"], "tokens")),
        ("goodput", rate(m["goodput_per_s"], "requests")),
        (
            "SLO met",
            f"{percent(m['slo_attainment_ratio'])} "
            f"(TTFT {duration(slo.ttft_s)}, TPOT {duration(slo.tpot_s)})",
        ),
        ("prefix hits", f"{percent(m['prefix_hit_ratio'])} of prompt tokens"),
        ("batch size", f"{digits(m['mean_batch_size'])} requests"),
        ("KV usage", f"{percent(m['kv_usage_mean_ratio'])} of {blocks} blocks"),
        ("preemptions", count(m["num_preemptions"])),
        ("load imbalance", f"{digits(m['load_imbalance_ratio'])} (max / mean)"),
        ("HBM traffic", amount(m["hbm_bytes"])),
        ("L2 hits", percent(m["l2_hit_ratio"])),
        *front_end,
    ]
