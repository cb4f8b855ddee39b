"""Policies that watch the engine, and short names for what a run recorded."""

from collections.abc import Iterable

from policies.batching.fcfs import FCFS
from sim.interfaces import BatchPolicy, ClusterView, InstanceView, Router
from sim.records import SimulationResult
from sim.request import Request


class Probe(Router):
    """Spreads requests in turn and notes what it sees of the cluster at every arrival."""

    def __init__(self) -> None:
        self.kv_tokens: list[tuple[int, ...]] = []
        self.num_running: list[tuple[int, ...]] = []
        self.num_waiting: list[tuple[int, ...]] = []
        self.queued_prefill_tokens: list[tuple[int, ...]] = []

    def route(self, request: Request, cluster: ClusterView, now_s: float) -> int:
        self.kv_tokens.append(tuple(cluster.kv_tokens()))
        self.num_running.append(tuple(cluster.num_running))
        self.num_waiting.append(tuple(cluster.num_waiting))
        self.queued_prefill_tokens.append(tuple(cluster.queued_prefill_tokens))
        return request.request_id % cluster.num_instances


class EveryStep(FCFS):
    """FCFS that wants to be asked in every step."""

    decides = "every_step"


class LastComeFirstServed(BatchPolicy):
    """The newest waiting request first: any arrival may overtake a blocked head."""

    def candidates(self, instance: InstanceView, now_s: float) -> Iterable[Request]:
        return sorted(instance.waiting.values(), key=lambda r: (-r.arrival_s, -r.request_id))


def rows(result: SimulationResult, *columns: str) -> list[tuple[int, ...]]:
    """Columns of the run table of instance 0, row by row."""
    instance = result.instances[0]
    return list(zip(*(instance.run_column(name).tolist() for name in columns), strict=True))


def work(result: SimulationResult) -> list[tuple[int, ...]]:
    """(steps, decodes, prefills, prefill tokens) of every run of instance 0."""
    return rows(result, "num_steps", "num_decodes", "num_prefills", "prefill_tokens")


def run_lengths(result: SimulationResult) -> list[int]:
    """Steps of every run of instance 0."""
    lengths: list[int] = result.instances[0].run_column("num_steps").tolist()
    return lengths


def used_blocks(result: SimulationResult) -> list[int]:
    """Blocks held after the first plan of every run of instance 0."""
    used: list[int] = result.instances[0].run_column("used_blocks").tolist()
    return used
