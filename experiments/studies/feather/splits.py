"""`feather_splits`: one large mixed batch against small ones, mixed and homogeneous."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import ClassVar

from experiments.studies.feather.load import SCALES, Load
from experiments.studies.feather.measures import OUTPUT, TBT
from experiments.studies.feather.rows import claim_row
from experiments.studies.feather.sweep import Sweep, Table
from experiments.studies.feather.variants import FCFS, ORACLE
from experiments.studies.findings import Row

NUM_GROUPS, NUM_REQUESTS = 8, 800
SHORT_TOKENS, LONG_TOKENS = 10, 200


def _loads() -> dict[str, Load]:
    return {
        f"{tokens} tokens, {'warm' if is_warm else 'cold'}": Load(
            num_groups=NUM_GROUPS, output_tokens=tokens, rate_per_s=None, is_warm=is_warm
        )
        for tokens in (SHORT_TOKENS, LONG_TOKENS)
        for is_warm in (True, False)
    }


class FeatherSplits(Sweep):
    """800 requests of 8 groups at once, in batches of 100 to 800."""

    name = "feather_splits"
    question = "When do eight homogeneous batches of 100 beat one mixed batch of 800?"
    axis = "Batch at most (requests)"
    values = (100, 200, 400, 800)
    variants = (FCFS, ORACLE)
    bases: ClassVar[Mapping[str, Load]] = _loads()
    arrivals = tuple(bases)
    num_requests = NUM_REQUESTS
    sizes: Mapping[str, str] = {
        size: "800 requests at once, batches of 100 to 800, mixed and by group, 10 and 200 output "
        f"tokens, warm and cold, {scale.num_seeds} seeds: 32 jobs"
        for size, scale in SCALES.items()
    }
    printed = (OUTPUT, TBT)
    own_notes = (
        "always 800 requests; fcfs fills batches by arrival (mixed), oracle by group (homogeneous, "
        "about 100 requests of each group; the rest of a larger group is a batch of its own)",
    )

    def load(self, value: float, base: Load) -> Load:
        """The load of the panel."""
        return base

    def machine(self, value: float) -> Mapping[str, str]:
        """The largest batch."""
        return {"engine.max_num_seqs": f"{value:g}"}

    def setting(self, value: float) -> str:
        """The split."""
        return f"{NUM_REQUESTS // int(value)} x {value:g}"

    def claims(self, table: Table) -> Sequence[Row]:
        """The large batch wins with short answers, the homogeneous ones with long ones."""
        rows = []
        for arrivals, load in self.bases.items():
            mixed, alike = table.at(arrivals, 800, FCFS), table.at(arrivals, 800, ORACLE)
            is_short = load.output_tokens == SHORT_TOKENS
            pair, title = (
                ((mixed, alike), "mixed 1x800/by group")
                if is_short
                else ((alike, mixed), "by group/mixed 1x800")
            )
            rows.append(
                claim_row(
                    arrivals,
                    title,
                    (1.0, inf) if is_short else (2.0, 2.0),
                    pair[0].ratio(pair[1], OUTPUT),
                    "[paper]" if is_short else "[note]",
                    limit_ratio=0.0 if is_short else 0.25,
                )
            )
        return rows
