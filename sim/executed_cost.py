"""Steps submitted by an executor: a cost model that may need the instance whose steps it prices.

A cluster takes one such model as a pattern and makes one of it for every instance, because what a
step costs may depend on the step before (which graph is loaded) or on physical blocks.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.interfaces import CostModel, FloatArray, RunTable

if TYPE_CHECKING:
    from sim.block_pager import BlockPager
    from sim.instance import Instance


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorRecords:
    """What an executor did in each run of an instance. Shape (runs,) each; None: not modelled.

    Attributes:
        num_switches: times that another graph was loaded.
        commit_s: time of the frame commits, seconds.
        transfer_s: what steps waited for transfer groups, seconds.
        transfer_groups: transfer groups of all steps of the run.
        transfer_bytes: bytes that they moved.
        fragmentation_ratio: fragmentation of the block tables, mean over the steps.
    """

    num_switches: FloatArray | None = None
    commit_s: FloatArray | None = None
    transfer_s: FloatArray | None = None
    transfer_groups: FloatArray | None = None
    transfer_bytes: FloatArray | None = None
    fragmentation_ratio: FloatArray | None = None


class ExecutedCost(CostModel):
    """A cost model of steps as an executor submits them.

    Attributes:
        max_request_tokens: longest prompt plus output that it can hold; None sets no limit.
        plans_every_step: whether every step must be planned on its own, because its price depends
            on what was planned in it.
        moves_blocks: whether its steps may wait for transfers of KV blocks.
    """

    max_request_tokens: int | None = None
    plans_every_step: bool = False
    moves_blocks: bool = False

    @abstractmethod
    def for_instance(self) -> "ExecutedCost":
        """A model of the same prices for one instance, in its state at start."""

    @abstractmethod
    def watch(self, instance: "Instance") -> None:
        """Take the instance whose steps are priced; before the first one."""

    def open_pager(self, num_blocks: int) -> "BlockPager | None":
        """Physical blocks of the KV cache of the instance; None where nobody follows them.

        Args:
            num_blocks: blocks that the cache can use.
        """
        return None

    @abstractmethod
    def records(self, runs: RunTable) -> ExecutorRecords:
        """What was done in `runs`, the first ones of the instance."""
