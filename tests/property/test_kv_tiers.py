"""Tiers behind the prefix cache: macro-stepping, conservation, and a naive twin block by block."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.batching.fcfs import FCFS
from policies.routing.least_requests import LeastRequests
from policies.routing.lmetric import LMetric
from sim.disaggregation.spec import LinkSpec
from sim.interfaces import BatchPolicy, EvictionPolicy, Router
from sim.prefix_tree import BlockGeometry, PrefixTree
from sim.records import SimulationResult
from sim.request import Request
from sim.tiers.caches import SPENT, KvTier, Run
from sim.tiers.domain import TierDomain
from sim.tiers.records import TierRecords
from sim.tiers.spec import TierSpec
from tests.engine_runs import ConstantCost, LinearCost, run_engine
from tests.property.test_macro_stepping import ShortestFirst, SmallBatches, columns
from tests.tiered_runs import run_tiered, run_to_tiers
from tests.twin.loops import random_loop
from tests.twin.workloads import EngineLimits, random_workload

seeds = st.integers(0, 2**32)
policies: st.SearchStrategy[type[BatchPolicy]] = st.sampled_from(
    [FCFS, ShortestFirst, SmallBatches]
)


class OddFirst(EvictionPolicy):
    """Not in order of release."""

    def key(self, owner: int, first_block: int, num_blocks: int, release_index: int) -> float:
        return -float(release_index % 7)


def random_tiers(seed: int) -> dict[str, Any]:
    """Options of small tiers, from links that keep up to links that do not."""
    rng = np.random.default_rng([seed, 2])
    options: dict[str, Any] = {
        "host_blocks": int(rng.choice([5, 30, 100, 1000])),
        "block_bytes": 16,
        "latency_s": float(rng.choice([0.0, 1e-3, 0.01])),
        "bytes_per_s": float(rng.choice([100.0, 1e4, 1600.0, 1e6])),
        "num_layers": 4,
        "instances_per_host": int(rng.choice([1, 2, 3])),
        "write": str(rng.choice(["write_back", "write_through"])),
        "min_hit_tokens": int(rng.choice([0, 0, 40])),
        "write_backlog_bytes": int(rng.choice([1 << 60, 64])),
    }
    if rng.random() < 0.2:
        options["eviction"] = OddFirst
    kind = int(rng.integers(4))
    if kind == 0:
        options["load"] = "layerwise"
    elif kind == 1:
        options["remote_blocks"] = int(rng.choice([50, 400]))
        rate = float(rng.choice([500.0, 1e5]))
        options["remote_link"] = LinkSpec(latency_s=0.002, bytes_per_s=rate)
    return options


def engine_options(limits: EngineLimits, seed: int, policy: type[BatchPolicy]) -> dict[str, Any]:
    rng = np.random.default_rng([seed, 3])
    router: Router = LMetric() if rng.random() < 0.3 else LeastRequests()
    return {
        "usable_blocks": limits["num_gpu_blocks"] - 1,
        "seats": limits["max_num_seqs"],
        "budget": limits["max_num_batched_tokens"],
        "block_tokens": 16,
        "cost": ConstantCost(0.01) if rng.random() < 0.5 else LinearCost(),
        "batching": lambda _index: policy(),
        "is_async": bool(rng.random() < 0.5),
        "num_instances": int(rng.choice([1, 1, 3])),
        "router": router,
        "publish_period_s": float(rng.choice([0.0, 0.0, 0.03])),
    }


@settings(max_examples=120, deadline=None)
@given(seed=seeds, structured=st.booleans(), is_closed=st.booleans(), policy=policies)
def test_macro_steps_on_and_off_give_bitwise_the_same_records(
    seed: int, structured: bool, is_closed: bool, policy: type[BatchPolicy]
) -> None:
    make = random_loop if is_closed else random_workload
    workload, limits = make(seed, structured=structured, step_s=0.01)
    found: list[SimulationResult] = []
    of_tiers: list[TierRecords] = []
    for macro_steps in (True, False):
        options = random_tiers(seed) | engine_options(limits, seed, policy)
        found.append(run_tiered(workload, macro_steps=macro_steps, **options))
        if not is_closed:
            options = random_tiers(seed) | engine_options(limits, seed, policy)
            _, records = run_to_tiers(workload, macro_steps=macro_steps, **options)
            of_tiers.append(records)
    assert columns(found[0]) == columns(found[1])
    if of_tiers:
        for name in of_tiers[0].__slots__:
            ours, plain = (getattr(one, name) for one in of_tiers)
            np.testing.assert_array_equal(ours, plain, err_msg=name)


@settings(max_examples=60, deadline=None)
@given(seed=seeds, structured=st.booleans(), is_closed=st.booleans(), policy=policies)
def test_tiers_from_which_nothing_is_loaded_change_no_record(
    seed: int, structured: bool, is_closed: bool, policy: type[BatchPolicy]
) -> None:
    make = random_loop if is_closed else random_workload
    workload, limits = make(seed, structured=structured, step_s=0.01)
    tiers = random_tiers(seed) | {"min_hit_tokens": 10**9}
    with_tiers = run_tiered(workload, **tiers, **engine_options(limits, seed, policy))
    without = run_engine(workload, **engine_options(limits, seed, policy))
    assert columns(with_tiers) == columns(without)


@settings(max_examples=30, deadline=None)
@given(seed=seeds, structured=st.booleans())
def test_a_hit_in_a_tier_is_at_most_the_prompt_less_one_token(seed: int, structured: bool) -> None:
    workload, limits = random_workload(seed, structured=structured, step_s=0.01)
    options = random_tiers(seed) | engine_options(limits, seed, FCFS)
    cluster, records = run_to_tiers(workload, **options)
    log = cluster.log.table()
    found = log["cached_tokens"] + records.host_hit_tokens + records.remote_hit_tokens
    assert (found < workload.prompt_tokens).all()
    options = random_tiers(seed) | engine_options(limits, seed, FCFS)
    finish_s = run_tiered(workload, **options).requests.finish_s
    assert not np.isnan(finish_s).any()


# -- the twin --------------------------------------------------------------------------------------

Key = tuple[int, int]
"""(owner, position), or (SPENT, number) for content that nobody asks for."""


@dataclass
class NaiveTier:
    """Blocks one by one, least recently used first."""

    size: int
    blocks: OrderedDict[Key, None] = field(default_factory=OrderedDict)
    lost: list[Key] = field(default_factory=list)

    def put(self, key: Key) -> None:
        if key not in self.blocks and len(self.blocks) == self.size:
            self.lost.append(self.blocks.popitem(last=False)[0])
        self.blocks[key] = None
        self.blocks.move_to_end(key)

    def refresh(self, key: Key) -> None:
        if key in self.blocks:
            self.blocks.move_to_end(key)


@dataclass
class NaiveLink:
    block_s: float
    latency_s: float
    backlog_s: float
    free_s: float = 0.0

    def send(self, keys: list[Key], now_s: float) -> tuple[list[Key], float]:
        start_s = max(self.free_s, now_s)
        room = (self.backlog_s - (start_s - now_s)) / self.block_s
        kept = keys[len(keys) - int(min(max(room, 0.0), len(keys))) :]
        self.free_s = start_s + len(kept) * self.block_s
        return kept, self.free_s + self.latency_s


class NaiveDomain:
    """Hosts and a store, block by block, from one list of events."""

    def __init__(self, spec: TierSpec, num_instances: int) -> None:
        self.per_host = spec.instances_per_host
        num_hosts = -(-num_instances // self.per_host)
        self.hosts = [NaiveTier(spec.host_blocks) for _ in range(num_hosts)]
        self.remote = NaiveTier(spec.remote_blocks) if spec.remote_link else None
        self.to_host = [self._link(spec, spec.host_link) for _ in range(num_instances)]
        self.to_remote = [self._link(spec, spec.remote_link or spec.host_link) for _ in self.hosts]
        self.events: list[tuple[float, int, int, int, str, list[Key]]] = []
        self.count = 0

    @staticmethod
    def _link(spec: TierSpec, link: LinkSpec) -> NaiveLink:
        rate = link.bytes_per_s
        block_s, backlog_s = spec.block_bytes / rate, spec.write_backlog_bytes / rate
        return NaiveLink(block_s, link.latency_s, backlog_s)

    def add(self, time_s: float, order: int, source: int, kind: str, keys: list[Key]) -> None:
        """Keys in the order in which they are written or used: the last block first."""
        self.count += 1
        self.events.append((time_s, order, source, self.count, kind, keys))

    def bring_to(self, now_s: float) -> None:
        while self.events:
            event = min(self.events, key=lambda e: e[:4])
            time_s, order, source, _, kind, keys = event
            if time_s > now_s or (time_s == now_s and order >= 2):
                return
            self.events.remove(event)
            host_number = source if kind in ("arrive_remote", "lost") else source // self.per_host
            host = self.hosts[host_number]
            if kind == "write":
                self._send(time_s, 0, "arrive", host, self.to_host[source], source, keys)
            elif kind == "lost" and self.remote is not None:
                link = self.to_remote[source]
                self._send(time_s, 1, "arrive_remote", self.remote, link, source, keys)
            elif kind == "arrive_remote" and self.remote is not None:
                for key in keys:
                    self.remote.put(key)
            elif kind == "use":
                for key in keys:
                    host.refresh(key)
                    if self.remote is not None:
                        self.remote.refresh(key)
            elif kind in ("arrive", "pass"):
                for key in keys:
                    host.put(key)
                self._tell_lost(time_s, host_number, host)

    def _tell_lost(self, time_s: float, number: int, host: NaiveTier) -> None:
        lost, host.lost = host.lost, []
        for key in lost:
            self.add(time_s, 3, number, "lost", [key])

    def _send(
        self,
        time_s: float,
        order: int,
        kind: str,
        tier: NaiveTier,
        link: NaiveLink,
        source: int,
        keys: list[Key],
    ) -> None:
        parts: list[list[Key]] = []
        is_apart = True
        for key in keys:
            if key in tier.blocks:
                is_apart = True
                continue
            if is_apart:
                parts.append([])
            parts[-1].append(key)
            is_apart = False
        for key in keys:
            tier.refresh(key)
        for part in parts:
            sent, arrival_s = link.send(part, time_s)
            if sent:
                self.add(arrival_s, order, source, kind, sent)

    def find(self, source: int, keys: list[Key], now_s: float) -> tuple[int, int]:
        """Leading blocks in the host, and behind them in the store."""
        self.bring_to(now_s)
        host, position = self.hosts[source // self.per_host], 0
        while position < len(keys) and keys[position] in host.blocks:
            position += 1
        end = position
        while self.remote is not None and end < len(keys) and keys[end] in self.remote.blocks:
            end += 1
        return position, end - position


NODES = [(-1, 40), (0, 8), (0, 27), (2, 33), (-1, 6), (4, 50)]
TREE = PrefixTree.from_parents(np.array([p for p, _ in NODES]), np.array([n for _, n in NODES]))
GEOMETRY = BlockGeometry.of(TREE, 4)


def request_through(node: int, number: int) -> Request:
    request = Request(None, number, 0.0, 400, 1, TREE.path_to(node))
    request.shared_blocks = GEOMETRY.first_block[node] + GEOMETRY.num_blocks[node]
    return request


def keys_of(request: Request) -> list[Key]:
    return [(n, k) for n in request.path for k in range(GEOMETRY.num_blocks[n])]


@pytest.mark.parametrize("has_remote", [False, True], ids=["host", "host and store"])
@settings(max_examples=80, deadline=None)
@given(seed=seeds)
def test_tiers_hold_what_a_naive_twin_holds_block_by_block(has_remote: bool, seed: int) -> None:
    rng = np.random.default_rng([seed, int(has_remote)])
    # What a host loses is one message here for each block: its order is the same if there is one
    # host, and the latencies let nothing else happen before all of it has arrived.
    per_host = 4 if has_remote else int(rng.choice([1, 2, 4]))
    rate = 1e7 if has_remote else float(rng.choice([1.0, 7.0, 1e3]))
    spec = TierSpec(
        host_blocks=int(rng.choice([1, 4, 12, 60])),
        block_bytes=1,
        host_link=LinkSpec(latency_s=float(rng.choice([0.0, 0.3])), bytes_per_s=rate),
        instances_per_host=per_host,
        remote_blocks=int(rng.choice([3, 20])) if has_remote else 0,
        remote_link=LinkSpec(latency_s=0.45, bytes_per_s=rate) if has_remote else None,
        write_backlog_bytes=1 << 40 if has_remote else int(rng.choice([1 << 40, 6])),
    )
    twin = NaiveDomain(spec, 4)
    hosts = {number: KvTier(spec.host_blocks, GEOMETRY) for number in range(len(twin.hosts))}
    host_of = {i: i // per_host for i in range(4)}
    remote = KvTier(spec.remote_blocks, GEOMETRY) if has_remote else None
    ours = TierDomain(spec, hosts, host_of, remote)
    now_s = 0.0
    for number in range(120):
        now_s += float(rng.choice([0.0, 1.0, 2.0]))
        source, node = int(rng.integers(4)), int(rng.integers(len(NODES)))
        size = GEOMETRY.num_blocks[node]
        first = int(rng.integers(size + 1))
        end = int(rng.integers(first, size + 1))
        kind = rng.random()
        if kind < 0.15:
            ours.note_write(source, now_s, SPENT, 0, 3)
            spent = [(SPENT, 10 * number + k) for k in (2, 1, 0)]
            twin.add(now_s, 2, source, "write", spent)
        elif kind < 0.6:
            if end > first:
                ours.note_write(source, now_s, node, first, end)
                keys = [(node, k) for k in reversed(range(first, end))]
                twin.add(now_s, 2, source, "write", keys)
        else:
            request = request_through(node, number)
            runs = ours.find(source, request, 0, request.shared_blocks, now_s + 0.9)
            counts = tuple(sum(run.end - run.first for run in part) for part in runs)
            assert counts == twin.find(source, keys_of(request), now_s + 0.9)
            if rng.random() < 0.6:
                note_load(ours, twin, source, now_s + 0.9, *runs)
    ours.bring_to(now_s + 1e6)
    twin.bring_to(now_s + 1e6)
    ours.check()
    for number, host in hosts.items():
        assert contents(host) == unnumbered(twin.hosts[number])
    if remote is not None and twin.remote is not None:
        assert contents(remote) == unnumbered(twin.remote)


def note_load(
    ours: TierDomain,
    twin: NaiveDomain,
    source: int,
    now_s: float,
    at_host: list[Run],
    at_remote: list[Run],
) -> None:
    ours.note_use(source, now_s, (*at_host, *at_remote))
    ours.note_passage(source, now_s, at_remote)
    for run in reversed([*at_host, *at_remote]):
        twin.add(now_s, 2, source, "use", _descending(run))
    for run in reversed(at_remote):
        twin.add(now_s, 2, source, "pass", _descending(run))


def _descending(run: Run) -> list[Key]:
    return [(run.owner, k) for k in reversed(range(run.first, run.end))]


def contents(tier: KvTier) -> list[Key]:
    """Blocks of a tier, the next one to be evicted first; those of `SPENT` have no number."""
    found: list[Key] = []
    for extent in tier.queue:
        if extent.owner >= 0:
            found += [(extent.owner, k) for k in reversed(range(extent.first, extent.end))]
        elif extent.owner == SPENT:
            found += [(SPENT, -1)] * extent.num_blocks
    return found


def unnumbered(tier: NaiveTier) -> list[Key]:
    return [(owner, -1 if owner == SPENT else k) for owner, k in tier.blocks]
