"""Queueing stations made of engine instances, and what theory says about them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from policies.batching.fcfs import FCFS
from policies.routing.round_robin import RoundRobin
from sim.cluster_spec import ClusterSpec
from sim.interfaces import CostModel, DecodeBatchView, FloatArray, PrefillChunk, Router
from sim.rng import stream
from sim.simulation import simulate
from sim.vllm_v1 import VllmV1
from sim.workload import Workload
from tests.engine_runs import ConstantCost

IntArray = npt.NDArray[np.int64]

TOLERANCE_STANDARD_ERRORS = 4.0
"""Half-width of every band: wide enough that no seed has to be picked, since the two dozen
comparisons of a correct engine with theory all hold with probability 0.998."""

NUM_BATCHES = 40
"""Batches of consecutive requests, where theory gives no standard error."""

NUM_BLOCKS = 1 << 40
"""KV blocks: no request ever waits for memory."""


STEP_S = 1e-3
"""Seconds per step: alone on its instance, a request is served output * STEP_S."""


class TimePerPromptToken(ConstantCost):
    """A prefill takes `token_s` per token: with one output token, service is prompt * token_s."""

    token_s = 1e-6

    def mixed_step_s(self, batch: DecodeBatchView, chunks: Sequence[PrefillChunk]) -> float:
        return self.token_s * sum(chunk.new_tokens for chunk in chunks)


@dataclass(frozen=True)
class Sample:
    """What a station did.

    Attributes:
        arrival_s: arrival times.
        service_s: time from admission to the last token.
        wait_s: time from arrival to admission.
        instance: who served.
    """

    arrival_s: FloatArray
    service_s: FloatArray
    wait_s: FloatArray
    instance: IntArray


def poisson(rate_per_s: float, num_requests: int, seed: int) -> FloatArray:
    """Arrival times of a Poisson stream."""
    gaps = stream(seed, "anchors.arrivals").exponential(1 / rate_per_s, num_requests)
    return np.cumsum(gaps)


def run(
    arrival_s: FloatArray,
    prompt_tokens: IntArray,
    output_tokens: IntArray,
    cost: CostModel,
    router: Router | None = None,
    num_instances: int = 1,
    max_num_seqs: int = 1,
) -> Sample:
    """Serve the requests first come first served on instances with `max_num_seqs` seats each."""
    spec = ClusterSpec(
        num_instances=num_instances,
        num_gpu_blocks=NUM_BLOCKS,
        rules=VllmV1(max_num_seqs, 1 << 40),
        cost=cost,
        batching=lambda _: FCFS(),
        router=RoundRobin() if router is None else router,
    )
    result = simulate(Workload.without_sharing(arrival_s, prompt_tokens, output_tokens), spec)
    records = result.requests
    assert result.num_finished == len(arrival_s)
    return Sample(
        arrival_s=arrival_s,
        service_s=records.finish_s - records.admitted_s,
        wait_s=records.admitted_s - arrival_s,
        instance=records.instance,
    )


def run_decodes(arrival_s: FloatArray, output_tokens: IntArray, max_num_seqs: int = 1) -> Sample:
    """Service by steps of one millisecond, one per output token."""
    prompts = np.ones_like(output_tokens)
    return run(arrival_s, prompts, output_tokens, ConstantCost(STEP_S), max_num_seqs=max_num_seqs)


def run_prefills(
    arrival_s: FloatArray,
    prompt_tokens: IntArray,
    router: Router | None = None,
    num_instances: int = 1,
) -> Sample:
    """Service by one prefill, a microsecond per token."""
    outputs = np.ones_like(prompt_tokens)
    return run(arrival_s, prompt_tokens, outputs, TimePerPromptToken(), router, num_instances)


def exponential_prompts(mean_s: float, num_requests: int, seed: int) -> IntArray:
    """Prompt lengths for exponential service of `run_prefills`, to a microsecond."""
    service_s = stream(seed, "anchors.service").exponential(mean_s, num_requests)
    return np.ceil(service_s / TimePerPromptToken.token_s).astype(np.int64)


def lindley(arrival_s: FloatArray, service_s: FloatArray) -> FloatArray:
    """Waits of a single FCFS server: W(n+1) = max(0, W(n) + S(n) - A(n+1))."""
    steps = service_s[:-1] - np.diff(arrival_s)
    walk = np.append(0.0, np.cumsum(steps))
    return walk - np.minimum.accumulate(walk)


@dataclass(frozen=True)
class MG1:
    """Theory of the single server with Poisson arrivals, first come first served.

    Attributes:
        rate_per_s: arrivals, lambda.
        moments: E[S], E[S^2], E[S^3], E[S^4] of the service time in powers of seconds.
    """

    rate_per_s: float
    moments: tuple[float, float, float, float]

    @property
    def load(self) -> float:
        """lambda * E[S], also the probability of waiting."""
        return self.rate_per_s * self.moments[0]

    @property
    def mean_wait_s(self) -> float:
        """Pollaczek-Khinchine: lambda * E[S^2] / (2 * (1 - load)), seconds."""
        return self.rate_per_s * self.moments[1] / (2 * (1 - self.load))

    def wait_standard_error_s(self, num_requests: int) -> float:
        """Standard error of the mean of successive waits, seconds.

        sqrt(E[J^2] / n) with J = W - E[W] + c * (2 * W * S + S^2), c = lambda / (2 * (1 - load)):
        the martingale increments of Poisson's equation, whose solution for the workload is
        x^2 / (2 * (1 - load)). Agrees with Daley (1968) for M/M/1.
        """
        s1, s2, s3, s4 = self.moments
        c = self.rate_per_s / (2 * (1 - self.load))
        w1 = self.mean_wait_s
        w2 = 2 * w1**2 + 2 * c * s3 / 3
        of_square = 1 + 4 * c * s1 + 4 * c**2 * s2
        of_product = c * s2 + 2 * c**2 * s3 - w1 - 2 * c * s1 * w1
        of_rest = c**2 * s4 - 2 * c * s2 * w1 + w1**2
        variance = w2 * of_square + 2 * w1 * of_product + of_rest
        return float(np.sqrt(variance / num_requests))

    def waiting_share_standard_error(self, num_requests: int) -> float:
        """The same for the share of requests that wait: J = [W > 0] - load + lambda * S."""
        variance = self.load * (1 - self.load) + self.rate_per_s**2 * self.moments[1]
        return float(np.sqrt(variance / num_requests))


def erlang_c(num_servers: int, offered: float) -> float:
    """Probability of waiting in M/M/c with `offered` = lambda / mu, by the Erlang B recursion."""
    blocked = 1.0
    for k in range(1, num_servers + 1):
        blocked = offered * blocked / (k + offered * blocked)
    load = offered / num_servers
    return blocked / (1 - load * (1 - blocked))


def standard_error(values: FloatArray) -> float:
    """Standard error of the mean of an autocorrelated sequence, by batch means."""
    means = values[: len(values) // NUM_BATCHES * NUM_BATCHES].reshape(NUM_BATCHES, -1).mean(axis=1)
    return float(means.std(ddof=1) / np.sqrt(NUM_BATCHES))
