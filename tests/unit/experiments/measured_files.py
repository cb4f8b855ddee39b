"""Files of measured runs, made by the simulator with hidden constants of the host and noise."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from experiments import api
from experiments.deployment import build_deployment
from experiments.job import load_workload
from experiments.schema.job import read_job
from hwmodels.device import CONSTANT_UNITS
from sim.simulation import simulate

MODEL, HARDWARE = "llama3_8b", "a100_sxm_80gb"

FIDELITY = "hardware.fidelity=roofline"
"""The faster of the cost models: what is fitted here does not depend on the kernels."""

TRACE = (
    "trace=synthetic",
    "trace.num_requests=240",
    "trace.rate_per_s=6",
    "trace.prompt=100-900",
    "trace.output=40-160",
)

LATER_S = 1234.5
"""Where the clock of the benchmark stands at the first request."""


def hidden_profile(folder: Path, **constants: float) -> Path:
    """A profile of the A100 with other constants, seconds."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "hidden.json"
    record = {
        "overlay_of": HARDWARE,
        "name": "hidden",
        "date": "2026-01-02",
        "constants": {
            name: {"value": value, "unit": CONSTANT_UNITS[name], "source": "made up"}
            for name, value in constants.items()
        },
    }
    path.write_text(json.dumps(record))
    return path


def measured_rows(
    profile: Path, offset_s: float, noise: float, *overrides: str
) -> list[dict[str, Any]]:
    """Requests as a server with that profile would answer them.

    Each gap and each time to first token errs by a factor `exp(noise * standard normal)`.
    """
    config = api.compose(
        f"model={MODEL}",
        "hardware=from_file",
        f"hardware.path={profile}",
        FIDELITY,
        "cluster.num_instances=1",
        *TRACE,
        *overrides,
    )
    job = read_job(config)
    workload = load_workload(job)
    result = simulate(workload, build_deployment(job).spec)
    requests, rng = result.requests, np.random.default_rng(7)
    rows = []
    for i in range(workload.num_requests):
        ends = result.instances[requests.instance[i]].step_end_s
        tokens_s = ends[requests.first_step[i] - 1 : requests.last_step[i]]
        times_s = np.diff(tokens_s, prepend=workload.arrival_s[i])
        times_s[0] += offset_s
        times_s *= np.exp(noise * rng.standard_normal(len(times_s)))
        rows.append(
            {
                "start": LATER_S + float(workload.arrival_s[i]),
                "prompt": int(workload.prompt_tokens[i]),
                "output": int(workload.output_tokens[i]),
                "ttft": float(times_s[0]),
                "itls": times_s[1:].tolist(),
            }
        )
    return rows


def vllm_result(rows: list[dict[str, Any]], **changed: Any) -> dict[str, Any]:
    """A result of vLLM's benchmark; keys given as ... are left out."""
    result = {
        "date": "20260102-000000",
        "num_prompts": len(rows),
        "input_lens": [row["prompt"] for row in rows],
        "output_lens": [row["output"] for row in rows],
        "start_times": [row["start"] for row in rows],
        "ttfts": [row["ttft"] for row in rows],
        "itls": [row["itls"] for row in rows],
        "errors": [""] * len(rows),
        **changed,
    }
    return {name: value for name, value in result.items() if value is not ...}


def guidellm_report(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """A report of GuideLLM."""
    requests = [
        {
            "request_start_time": row["start"],
            "prompt_tokens": row["prompt"],
            "output_tokens": row["output"],
            "time_to_first_token_ms": 1e3 * row["ttft"],
            "inter_token_latency_ms": 1e3 * float(np.mean(row["itls"])) if row["itls"] else None,
            "time_per_output_token_ms": 1e9,
        }
        for row in rows
    ]
    groups = {"successful": requests, "errored": [], "incomplete": []}
    return {"benchmarks": [{"requests": groups}]}


def aiperf_lines(rows: list[dict[str, Any]], unit: str = "ms") -> str:
    """Records of AIPerf."""
    text = ""
    for row in rows:
        record = {
            "metadata": {
                "request_start_ns": 1_759_813_207_000_000_000 + round(row["start"] * 1e9),
                "was_cancelled": False,
            },
            "metrics": {
                "input_sequence_length": {"value": row["prompt"], "unit": "tokens"},
                "output_sequence_length": {"value": row["output"], "unit": "tokens"},
                "time_to_first_token": {"value": 1e3 * row["ttft"], "unit": unit},
                "request_latency": {"value": 1e3 * (row["ttft"] + sum(row["itls"])), "unit": "ms"},
                "inter_chunk_latency": {"value": [1e3 * s for s in row["itls"]], "unit": "ms"},
            },
            "error": None,
        }
        text += json.dumps(record) + "\n"
    return text


def csv_text(rows: list[dict[str, Any]], rest: str = "itls_s") -> str:
    """A table whose last column is `rest`."""
    text = f"arrival_s,prompt_tokens,output_tokens,ttft_s,{rest}\n"
    for row in rows:
        tpot_s = float(np.mean(row["itls"])) if row["itls"] else 0.0
        last = {
            "itls_s": " ".join(map(repr, row["itls"])),
            "e2e_s": repr(row["ttft"] + sum(row["itls"])),
            "tpot_s": repr(tpot_s),
        }[rest]
        text += f"{row['start']!r},{row['prompt']},{row['output']},{row['ttft']!r},{last}\n"
    return text
