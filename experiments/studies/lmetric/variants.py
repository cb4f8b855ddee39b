"""Routers of the studies of LMETRIC, by the names that tables and figures give them."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Variant:
    """A router with its options.

    Attributes:
        label: in tables and figures.
        routing: option of the group `routing`.
        options: of its section.
    """

    label: str
    routing: str
    options: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def overrides(self) -> dict[str, str]:
        """The section `routing` of a job."""
        options = {f"routing.{key}": value for key, value in self.options.items()}
        return {"routing": self.routing, **options}

    @property
    def name(self) -> str:
        """For directories."""
        kept = self.label.replace(", ", "-").replace(" ", "_").replace("=", "")
        return kept.replace("/", "_over_")


LMETRIC = Variant("lmetric", "lmetric")
JSQ = Variant("jsq", "jsq")
VLLM_DP = Variant("vllm_dp", "vllm_dp")
LINEAR = Variant("linear", "linear")
DYNAMO = Variant("dynamo", "dynamo")
LLM_D = Variant("llm_d", "llm_d")
LLM_D_LOAD = Variant(
    "llm_d, load-aware",
    "llm_d",
    {
        "queue_weight": "0",
        "kv_weight": "0",
        "prefix_weight": "10",
        "load_aware_weight": "1",
        "prefix_index": "exact",
    },
)
"""LMETRIC's baseline `most-hit-load`: 10 x hit + load-aware. Source: POLICIES 4.4 (its 0.5 is the
scorer's own)."""

AIBRIX = Variant("aibrix", "aibrix")
PREBLE = Variant("preble", "preble")
SGLANG = Variant("sglang_router", "sglang_router")
MOONCAKE = Variant("mooncake_ttft", "mooncake_ttft")
POLYSERVE = Variant("polyserve", "polyserve")
SMETRIC = Variant("smetric", "smetric")
SESSION = Variant("session_affinity", "session_affinity")
MOST_HIT = Variant("most_hit, bounded", "most_hit", {"max_queued_tokens": "2048"})
"""Source: POLICIES 4.4 (bounded-most-hit)."""

LPWL = Variant("lpwl", "lpwl")
LEAST_REQUESTS = Variant("least_requests", "least_requests")
LEAST_TOKENS = Variant("least_tokens", "least_tokens")
POWER_OF_TWO = Variant("power_of_two", "power_of_two")
RANDOM = Variant("random", "random")
ROUND_ROBIN = Variant("round_robin", "round_robin")

MAIN = (JSQ, LINEAR, DYNAMO, LLM_D, LLM_D_LOAD, AIBRIX, PREBLE, LPWL)
"""Baselines that a claim is about."""

OTHERS = (
    *(VLLM_DP, SGLANG, MOONCAKE, POLYSERVE, SMETRIC, SESSION, MOST_HIT),
    *(LEAST_REQUESTS, LEAST_TOKENS, POWER_OF_TWO, RANDOM, ROUND_ROBIN),
)
"""The rest of those with documented rules."""

PLACEBO = ", ties +"
"""In the names of placebos."""

RATIO = Variant("miss ratio for tokens", "lmetric", {"prefill": "miss_ratio"})
TOKENS = Variant("tokens for batch size", "lmetric", {"load": "tokens"})
WITHOUT_ONE = Variant("without the +1", "lmetric", {"plus_one": "false"})
BOTH = Variant("both other indicators", "lmetric", {"prefill": "miss_ratio", "load": "tokens"})


def placebo(shift: int = 1, of: Variant = LMETRIC) -> Variant:
    """The same policy whose order of ties moves on by so many places."""
    return Variant(
        f"{of.label}{PLACEBO}{shift}", of.routing, {**of.options, "tie_shift": f"{shift}"}
    )


def with_weight(hit: float) -> Variant:
    """The linear router with this weight of the hit; batch and tokens share the rest."""
    rest = f"{(1 - hit) / 2:.6g}"
    weights = {"hit_weight": f"{hit:g}", "batch_weight": rest, "token_weight": rest}
    return Variant(f"linear, {hit:.2f}", "linear", weights)
