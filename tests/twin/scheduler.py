"""The clock of the twin: who plans when, synchronously or one step ahead."""

from collections.abc import Callable, Sequence

from sim.workload import Workload
from tests.twin.block_pool import BlockPool
from tests.twin.plan import Plan
from tests.twin.planner import Planner
from tests.twin.result import Chunk, StepLog, TwinResult

StepDuration = Callable[[int, int, Sequence[Chunk]], float]
"""(number of decodes, sum of their contexts, prefill chunks) -> seconds."""


def run_twin(
    workload: Workload,
    *,
    num_gpu_blocks: int,
    max_num_seqs: int,
    max_num_batched_tokens: int,
    block_tokens: int = 16,
    long_prefill_token_threshold: int = 0,
    prefix_caching: bool = True,
    async_scheduling: bool = False,
    step_s: float = 1.0,
    step_duration: StepDuration | None = None,
    hash_in_flight_input: bool = True,
) -> TwinResult:
    """Run every request of `workload` to its end on one instance, open or closed loop.

    Args:
        workload: the requests; with `step_s=1` arrival times count steps.
        num_gpu_blocks: as the engine logs it; one of them is the null block.
        max_num_seqs: most running requests.
        max_num_batched_tokens: token budget of a step.
        block_tokens: tokens per KV block.
        long_prefill_token_threshold: most tokens of one request in one step, 0 = no such limit.
        prefix_caching: whether blocks are hashed and found again.
        async_scheduling: whether a step is planned while its predecessor executes.
        step_s: duration of every step.
        step_duration: duration by work, instead of `step_s`.
        hash_in_flight_input: see `Planner.deliver`.

    Raises:
        ValueError: a request can never fit.
    """
    planner = Planner(
        workload,
        pool=BlockPool(num_gpu_blocks),
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        block_tokens=block_tokens,
        token_threshold=long_prefill_token_threshold or max_num_batched_tokens,
        prefix_caching=prefix_caching,
        hash_in_flight_input=hash_in_flight_input,
    )

    def seconds(plan: Plan) -> float:
        if step_duration is None:
            return step_s
        return step_duration(plan.num_decodes, plan.context_sum, plan.chunks)

    steps: list[StepLog] = []

    def start(plan: Plan, now_s: float) -> Plan:
        steps.append(plan.log(start_s=now_s, end_s=now_s + seconds(plan)))
        return plan

    now_s = 0.0
    while not planner.is_done:
        planner.collect(now_s, was_idle=False)
        if not planner.has_requests:
            now_s = max(now_s, planner.to_arrive.next_s)
            planner.collect(now_s, was_idle=True)
        first = planner.plan(now_s)
        assert first is not None, "an idle instance could not schedule anything"
        executing: Plan | None = start(first, now_s)
        queued = planner.plan(now_s) if async_scheduling else None
        while executing is not None:
            now_s = steps[-1].end_s
            planner.deliver(executing, now_s)
            if queued is None:
                executing = None
            else:
                executing = start(queued, now_s)
                planner.collect(now_s, was_idle=False)
                queued = planner.plan(now_s)
    arrival_s = planner.to_arrive.arrival_s
    return TwinResult([request.log for request in planner.requests], steps, arrival_s)
