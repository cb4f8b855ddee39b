"""Decode batches that share prefixes, request by request, and what prices them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import cast

import numpy as np

from hwmodels.attention.build import attention_pricer
from hwmodels.attention.choice import KernelChoice
from hwmodels.attention.decode_steps import DecodeSteps
from hwmodels.attention.pricer import AttentionPricer
from hwmodels.attention.tree_log import TreeLog
from hwmodels.device import DeviceSpec, load_profile
from hwmodels.kernels import KernelModels
from hwmodels.kernels.shared_prefix import SharedPrefixModel
from hwmodels.model_catalogue import load_model
from hwmodels.model_shape import ModelShape
from sim.prefix_tree import PrefixTree
from sim.request import DECODING, PREFILLING, Request
from sim.running_tree import RunningPrefixTree
from tests.l2_oracle.trees import random_tree

BLOCK_TOKENS = 16

CHOICES = [
    KernelChoice(name="flash"),
    KernelChoice(name="flash", member_order="contiguous"),
    KernelChoice(name="flash", family="per_head"),
    KernelChoice(name="flash", family="padded", member_order="contiguous"),
    KernelChoice(name="flash", mixed_batch="fused_varlen"),
    KernelChoice(name="flash_cascade"),
    KernelChoice(name="flash_cascade", member_order="contiguous", mixed_batch="fused_varlen"),
    KernelChoice(name="flash_cascade", family="per_head"),
    KernelChoice(name="flashinfer"),
    KernelChoice(name="flashinfer", member_order="contiguous"),
    KernelChoice(name="flash_pat"),
    KernelChoice(name="flash_pat", member_order="contiguous"),
    KernelChoice(name="packed"),
]
"""Every kernel, family and member order that exists together."""


@dataclass(frozen=True)
class SharingBatch:
    """Requests that decode, by the contexts of the next step, and their prefix tree."""

    contexts: Sequence[int]
    tree: RunningPrefixTree

    @property
    def num_requests(self) -> int:
        return len(self.contexts)

    @property
    def context_tokens(self) -> int:
        return sum(self.contexts)

    @property
    def context_tokens_squared(self) -> int:
        return sum(c * c for c in self.contexts)

    @property
    def max_context_tokens(self) -> int:
        return max(self.contexts, default=0)

    @property
    def moments(self) -> tuple[int, int, int, int]:
        """Batch size, sum, sum of squares and longest, as the pricers take them."""
        return (
            self.num_requests,
            self.context_tokens,
            self.context_tokens_squared,
            self.max_context_tokens,
        )

    @property
    def unique_tokens(self) -> int:
        """Tokens of all contexts, shared ones counted once; counted node by node."""
        shared = sum(
            (count - 1) * self.tree.node_tokens(node)
            for node, count in self.tree.member_counts.items()
        )
        return self.context_tokens - shared

    def after(self, num_steps: int) -> "SharingBatch":
        return SharingBatch([c + num_steps for c in self.contexts], self.tree)


def sharing_batch(
    nodes: Sequence[tuple[int, int]],
    asks: Sequence[tuple[tuple[int, ...], int]],
    prefilling: Sequence[tuple[int, ...]] = (),
) -> SharingBatch:
    """A batch over a tree.

    Args:
        nodes: (parent, tokens) of each node.
        asks: (path, tokens beside it) of each decoding request.
        prefilling: path of each running request that does not decode yet.
    """
    tree = PrefixTree.from_parents(
        np.array([parent for parent, _ in nodes], dtype=np.int64),
        np.array([tokens for _, tokens in nodes], dtype=np.int64),
    )
    running: dict[int, Request] = {}
    found = RunningPrefixTree(tree, running)
    contexts = []
    for path, own in asks:
        request = Request(None, len(running), 0.0, 1, 1, path)
        request.phase = DECODING
        running[request.request_id] = request
        found.add(path)
        contexts.append(sum(nodes[node][1] for node in path) + own)
    for path in prefilling:
        request = Request(None, len(running), 0.0, 1, 1, path)
        request.phase = PREFILLING
        running[request.request_id] = request
    return SharingBatch(contexts, found)


def one_group(size: int, prefix_tokens: int, own_tokens: int) -> SharingBatch:
    """Requests that share one prefix."""
    return sharing_batch([(-1, prefix_tokens)], [((0,), own_tokens)] * size)


def alone(contexts: Sequence[int]) -> SharingBatch:
    """Requests that share nothing."""
    return sharing_batch([], [((), tokens) for tokens in contexts])


def random_batch(seed: int) -> SharingBatch:
    """A random forest of 2 to 95 requests, often under one common root, in random order."""
    rng = np.random.default_rng(seed)
    forest = random_tree(rng)
    grain, root = int(rng.choice([1, 5, 16, 40])), int(rng.choice([0, 700, 3000]))
    below = 1 if root else 0
    nodes = [(-1, root)] * below
    for node in range(min(forest.leaves)):
        above = forest.parents[node]
        nodes.append((above + below if above >= 0 else below - 1, grain * forest.num_tiles[node]))
    asks = []
    for leaf in rng.permutation(forest.leaves).tolist():
        path = (*range(below), *(node + below for node in forest.path(leaf)[:-1]))
        asks.append((path, grain * forest.num_tiles[leaf] + int(rng.integers(1, 30))))
    return sharing_batch(nodes, asks)


# -- devices and pricers -------------------------------------------------------------------------


@dataclass(frozen=True)
class Gpu:
    """Kernels of a device, as `attention_pricer` asks for them."""

    kernels: KernelModels

    def kernel(self, name: str) -> object:
        found = getattr(self.kernels, name)
        assert found is not None, name
        return found

    @property
    def shared(self) -> SharedPrefixModel:
        found = self.kernels.shared_prefix
        assert found is not None
        return found

    def with_l2_midpoint(self, midpoint_bytes: float) -> "Gpu":
        """The same device with another size of L2."""
        assert self.kernels.l2 is not None
        l2 = replace(self.kernels.l2, midpoint_bytes=midpoint_bytes)
        shared = replace(self.shared, l2=l2)
        return Gpu(replace(self.kernels, l2=l2, shared_prefix=shared))


@cache
def gpu(name: str) -> Gpu:
    """A packaged device."""
    return Gpu(load_profile(name).kernels)


@cache
def shape_of(name: str) -> ModelShape:
    """A catalogued model."""
    return load_model(name)


def pricer_of(
    device: Gpu, shape: ModelShape, choice: KernelChoice, *, uses_l2: bool = True
) -> AttentionPricer:
    """What prices attention on a device."""
    return attention_pricer(
        cast(DeviceSpec, device), shape, choice, uses_l2=uses_l2, block_tokens=BLOCK_TOKENS
    )


def steps_of(*batches: SharingBatch) -> DecodeSteps:
    """The batches as the ledger hands them over, one step each."""
    log = TreeLog(has_common=True)
    numbers = [log.note(batch.tree) for batch in batches]
    sizes, totals, squares, longest = np.array([batch.moments for batch in batches]).T
    return DecodeSteps(
        batch_size=sizes.astype(np.float64),
        context_tokens=totals.astype(np.float64),
        squares=squares.astype(np.float64),
        longest=longest.astype(np.float64),
        cascaded=np.full(len(batches), -1),
        tree=np.array(numbers, dtype=np.int64),
        trees=log.trees(),
    )


def step_s(pricer: AttentionPricer, batch: SharingBatch) -> float:
    """Seconds of a decode step."""
    return pricer.step_s(*batch.moments, batch.tree if pricer.uses_tree else None)
