"""What a run of decode steps has saved is used again by the step with chunks that ends it."""

from array import array

import pytest

from hwmodels.attention.choice import KernelChoice
from hwmodels.attention.pricer import AttentionPricer
from sim.interfaces import PrefillChunk
from tests.unit.hwmodels.attention.batches import SharingBatch, gpu, pricer_of, shape_of
from tests.unit.hwmodels.attention.batches import sharing_batch as batch_of

CHUNKS = [PrefillChunk(300, 128, True)]


def fused(device: str = "a100_sxm_80gb") -> AttentionPricer:
    """A fresh pricer of mixed steps in one call, which has kept nothing."""
    return pricer_of(gpu(device), shape_of("llama2_7b"), KernelChoice(mixed_batch="fused_varlen"))


def mixed_s(pricer: AttentionPricer, batch: SharingBatch) -> float:
    return pricer.mixed_s(*batch.moments, batch.tree, CHUNKS)


def run(pricer: AttentionPricer, batch: SharingBatch, num_steps: int) -> None:
    pricer.write_run_ends(batch, num_steps, 0.0, 0.0, memoryview(array("d", [0.0] * num_steps)), 0)


def groups() -> SharingBatch:
    """Three requests of one group, three of another, and six of their own."""
    nodes = [(-1, 900), (-1, 400)]
    return batch_of(nodes, [((0,), 55)] * 3 + [((1,), 70)] * 3 + [((), 500)] * 6)


@pytest.mark.parametrize("after", [0, 1, 9, 17, 40, 90])
def test_a_step_with_chunks_costs_the_same_after_a_run_as_without(after: int) -> None:
    pricer, batch = fused(), groups()
    run(pricer, batch, 50)
    assert mixed_s(pricer, batch.after(after)) == mixed_s(fused(), batch.after(after))


def test_what_was_kept_of_a_tree_does_not_outlive_a_change_of_it() -> None:
    pricer, batch = fused(), groups()
    before_s = mixed_s(pricer, batch)
    run(pricer, batch, 50)
    batch.tree.remove((0,))
    batch.tree.add((1,))  # as many requests, who share less
    assert mixed_s(pricer, batch) == mixed_s(fused(), batch) != before_s


def test_what_was_kept_of_a_batch_size_is_not_used_for_another() -> None:
    # Twice as many requests with about as many tokens: the sums have the same bound.
    pricer, batch = fused(), groups()
    run(pricer, batch, 50)
    larger = SharingBatch([*batch.contexts[:6], *[166] * 18], batch.tree)
    assert mixed_s(pricer, larger) == mixed_s(fused(), larger)
    assert mixed_s(pricer, batch) == mixed_s(fused(), batch)
