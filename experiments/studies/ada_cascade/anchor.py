"""Measured decode times on an RTX 6000 Ada, restated, and the jobs that repeat them.

Source: a third party's public report (numbers restated as facts): RTX 6000 Ada 48 GB,
Llama-3.1-8B, all requests share one warm prefix of 10,000 tokens, 20 tokens of their own, 50 output
tokens, first come first served, a fixed number of users. Cascade attention is on by default in vLLM
0.14.0 and off in 0.22.1.
"""

from dataclasses import dataclass

from experiments.studies.runs import Case

PREFIX_TOKENS, OWN_TOKENS, OUTPUT_TOKENS = 10_000, 20, 50
WARM_START_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """A measured row.

    Attributes:
        label: how it is called in tables.
        has_cascade: whether cascade attention is on.
        num_users: requests at a time, the batch.
        tpot_ms: lowest and highest time per output token, milliseconds.
        output_tokens_per_s: lowest and highest throughput.
        is_judged: whether the simulated TPOT must come near.
        role: what the row was used for.
    """

    label: str
    has_cascade: bool
    num_users: int
    tpot_ms: tuple[float, float]
    output_tokens_per_s: tuple[float, float]
    is_judged: bool
    role: str

    def case(
        self, num_requests: int, fidelity: str = "calibrated_l2", has_frontend: bool = False
    ) -> Case:
        """The job."""
        front = "-frontend" if has_frontend else ""
        return Case(
            f"{'cascade' if self.has_cascade else 'flash'}-{self.num_users}-{fidelity}{front}",
            (
                *("model=llama3_1_8b", "hardware=rtx6000_ada", f"hardware.fidelity={fidelity}"),
                f"kernel={'flash_cascade' if self.has_cascade else 'flash'}",
                *("cluster.num_instances=1", "cluster.tensor_parallel=1"),
                *("engine=vllm_v1", "engine.async_scheduling=true"),
                f"engine.max_num_seqs={max(self.num_users, 256)}",
                *("trace=prefix_groups", "trace.num_groups=1", "trace.arrivals=all_at_once"),
                *(f"trace.prefix_tokens={PREFIX_TOKENS}", f"trace.suffix={OWN_TOKENS}"),
                *(f"trace.output={OUTPUT_TOKENS}", f"trace.warm_start_s={WARM_START_S}"),
                *(f"trace.num_requests={num_requests}", f"trace.warmup_requests={self.warmup}"),
                f"trace.replay_concurrency={self.num_users}",
                f"frontend.enabled={str(has_frontend).lower()}",
            ),
        )

    @property
    def warmup(self) -> int:
        """Requests that count in no figure: the users fall out of step meanwhile."""
        return 2 * self.num_users


OFF = Anchor(
    label="cascade off, 100 users",
    has_cascade=False,
    num_users=100,
    tpot_ms=(98.0, 101.0),
    output_tokens_per_s=(695.0, 710.0),
    is_judged=True,
    role="fitted",
)
ON = Anchor(
    label="cascade on, 100 users",
    has_cascade=True,
    num_users=100,
    tpot_ms=(32.0, 34.0),
    output_tokens_per_s=(1650.0, 1690.0),
    is_judged=True,
    role="not fitted",
)
ON_500 = Anchor(
    label="cascade on, 500 users",
    has_cascade=True,
    num_users=500,
    tpot_ms=(116.0, 126.0),
    output_tokens_per_s=(2668.0, 2668.0),
    is_judged=False,
    role="not fitted",
)
ANCHORS = (OFF, ON, ON_500)
