"""The three mechanisms that make a batch with one prefix cheaper, each on and off."""

from dataclasses import dataclass
from itertools import product

from experiments.studies.feather.cell import Cell
from experiments.studies.feather.load import Load
from experiments.studies.feather.measures import BLOCK_TOKENS
from experiments.studies.feather.variants import Variant

FACTORS = ("cascade", "L2", "KV tight")

_TIGHT_REQUESTS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A combination.

    Attributes:
        has_cascade: whether the engine has cascade attention.
        has_l2: whether shared prefixes hit L2.
        is_tight: whether the KV cache is too small for all prefixes.
    """

    has_cascade: bool
    has_l2: bool
    is_tight: bool

    @property
    def signs(self) -> tuple[int, ...]:
        """+1 or -1 per factor, in the order of FACTORS."""
        return tuple(1 if on else -1 for on in (self.has_cascade, self.has_l2, self.is_tight))

    @property
    def label(self) -> str:
        """In tables."""
        return ", ".join(
            (
                f"cascade {'on' if self.has_cascade else 'off'}",
                f"L2 {'on' if self.has_l2 else 'off'}",
                f"KV {'tight' if self.is_tight else 'ample'}",
            )
        )


CONDITIONS = tuple(
    Condition(has_cascade=has_cascade, has_l2=has_l2, is_tight=is_tight)
    for has_cascade, has_l2, is_tight in product((True, False), (True, False), (False, True))
)


def tight_blocks(load: Load) -> int:
    """KV blocks for half of the prefixes and the own tokens of a hundred requests."""
    of_prefix = -(-load.prefix_tokens // BLOCK_TOKENS)
    of_request = 1 + -(-(load.own_tokens + load.output_tokens) // BLOCK_TOKENS)
    return -(-load.num_groups // 2) * of_prefix + _TIGHT_REQUESTS * of_request


def cell_of(load: Load, condition: Condition, variant: Variant) -> Cell:
    """A job of the factorial."""
    machine = {
        "kernel": "flash_cascade" if condition.has_cascade else "flash",
        "hardware.fidelity": "calibrated_l2" if condition.has_l2 else "calibrated",
    }
    if condition.is_tight:
        machine["engine.num_gpu_blocks"] = str(tight_blocks(load))
    place = condition.label.replace(", ", "-").replace(" ", "_")
    return Cell(load=load, variant=variant, machine=machine, place=place)
