"""Four measured runs of vLLM on A100, restated.

Source: accuracy data of inference-sim (numbers restated as facts): vLLM 0.15.1, A100 80 GB, fp16,
`gpu_memory_utilization` 0.9, `max_num_batched_tokens` 2048. The load is inference-perf's multi-turn
chat of 9 system prompts x 5 users. Prompts of about 547 tokens; output tokens are
(E2E - TTFT) / ITL + 1. What share of the prompts was cached is not recorded.

Spacing of the arrivals: the profile that inference-sim publishes for this load (9 x 5, system
prompt 100, question 447 tokens; other rates) says constant, in stages of 600 s.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from experiments.studies.runs import Case

PROMPT_TOKENS = 547
BLOCK_TOKENS = 16
MOST_BLOCKS = PROMPT_TOKENS // BLOCK_TOKENS
"""Whole KV blocks of a prompt, the most that can be cached."""

NUM_GROUPS = 9
WARM_START_S = 20.0
"""Until then only the prefixes are there: they are cached when the load begins."""

WARMUP_S = 40.0
"""Requests before count in no figure: the batch fills up meanwhile, outputs take up to 11 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A measured run.

    Attributes:
        label: how it is called in tables.
        model: name in the catalogue.
        tensor_parallel: GPUs.
        rate_per_s: requests per second.
        output_tokens: of every request.
        measured_ms: latencies by metric, milliseconds.
        is_fitted: whether the hit share is fitted to it.
    """

    label: str
    model: str
    tensor_parallel: int
    rate_per_s: float
    output_tokens: int
    measured_ms: Mapping[str, float]
    is_fitted: bool

    @property
    def folder(self) -> str:
        """Start of the names of its jobs' directories."""
        return f"{self.model}-{self.rate_per_s:g}"

    @property
    def role(self) -> str:
        """What it was used for."""
        return "fitted" if self.is_fitted else "not fitted"


METRICS = (
    "itl_mean_s",
    "ttft_mean_s",
    "ttft_p90_s",
    "ttft_p99_s",
    "e2e_mean_s",
    "e2e_p90_s",
    "e2e_p99_s",
)
"""Metrics that were measured, in the order of the numbers below."""


def _point(label: str, rate_per_s: float, *values_ms: float) -> Point:
    is_small = label == "8B"
    return Point(
        label=f"{label}, {rate_per_s:g}/s",
        model="llama3_1_8b" if is_small else "llama2_70b",
        tensor_parallel=1 if is_small else 4,
        rate_per_s=rate_per_s,
        output_tokens=238 if is_small else 246,
        measured_ms=dict(zip(METRICS, values_ms, strict=True)),
        is_fitted=is_small,
    )


POINTS = (
    _point("8B", 2.5, 12.80324, 42.20896, 46.16698, 79.16877, 3067.299, 3167.397, 3714.532),
    _point("8B", 6.0, 15.07638, 45.94788, 52.44393, 57.92597, 3619.849, 3810.572, 3953.108),
    _point("70B", 2.5, 32.36394, 98.93587, 106.2922, 263.9034, 8033.819, 8010.016, 10370.71),
    _point("70B", 6.0, 38.09424, 112.7203, 135.9396, 154.321, 9444.741, 10541.48, 11294.89),
)
"""Llama-3.1-8B-Instruct on one GPU, Llama-2-70B on four."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How a point is simulated.

    Attributes:
        blocks: KV blocks of every prompt that its group shares and that are cached.
        arrivals: constant or poisson.
        seconds: length of the load.
        num_seeds: replications.
        has_frontend: whether an API server is in front.
    """

    blocks: int
    arrivals: str
    seconds: float
    num_seeds: int
    has_frontend: bool = False

    def case(self, point: Point) -> Case:
        """The job."""
        prefix_tokens = max(self.blocks * BLOCK_TOKENS, 1)
        front = "-frontend" if self.has_frontend else ""
        return Case(
            f"{point.folder}-{self.arrivals}-{self.blocks}_blocks{front}",
            (
                *(f"model={point.model}", "hardware=a100_sxm_80gb"),
                *("hardware.fidelity=calibrated_l2", "kernel=flash_cascade"),
                *("cluster.num_instances=1", f"cluster.tensor_parallel={point.tensor_parallel}"),
                *("engine=vllm_v1", "engine.async_scheduling=true"),
                *("engine.max_num_batched_tokens=2048", "engine.gpu_memory_utilization=0.9"),
                *("trace=prefix_groups", f"trace.num_groups={NUM_GROUPS}"),
                f"trace.prefix_tokens={prefix_tokens}",
                f"trace.suffix={PROMPT_TOKENS - prefix_tokens}",
                f"trace.output={point.output_tokens}",
                *(f"trace.arrivals={self.arrivals}", f"trace.rate_per_s={point.rate_per_s!r}"),
                f"trace.num_requests={round(point.rate_per_s * self.seconds)}",
                *(f"trace.warm_start_s={WARM_START_S}", f"trace.warmup_s={WARMUP_S}"),
                f"frontend.enabled={str(self.has_frontend).lower()}",
                f"replications={self.num_seeds}",
            ),
        )


def share_of(blocks: int) -> float:
    """Share of a prompt's tokens that so many cached blocks hold."""
    return blocks * BLOCK_TOKENS / PROMPT_TOKENS
