"""The simulator's own invariants, numbered; `check=true` verifies them in every run.

1. Conservation of requests: finished + rejected + unfinished = offered.
2. Conservation of KV blocks: free + held = usable, at every plan.
3. Causality: arrival <= admitted <= first token <= last token.
4. Step ends never decrease.
5. Work conservation: an instance never goes idle while a waiting request could be admitted.
6. Under FCFS, first admissions of an instance follow the order of arrival.
7. Token exactness: a finished request has produced exactly its output tokens.
8. Budget: no step exceeds the token budget or the seats.
9. A prefix hit is at most the prompt less one token.
10. Little's law as an identity: the integral of the number in the system over time equals the sum
    of sojourn times, for runs that start and end empty.
"""

from collections.abc import Iterable

from sim.extents import Extent
from sim.instance import Instance
from sim.request import DECODING, Request


def held_blocks(request: Request, step: int, block_tokens: int) -> int:
    """KV blocks that a running request holds when `step` steps of its instance are applied."""
    if request.phase != DECODING:
        return request.num_blocks
    held_tokens = request.computed_tokens + step - request.decode_start_step
    return max(request.num_blocks, -(-held_tokens // block_tokens))


def check_blocks(instance: Instance, requests: Iterable[Request], extra_blocks: int = 0) -> None:
    """Invariant 2 on an instance whose run is applied; `extra_blocks` are planned decode blocks."""
    kv, step = instance.kv, instance.batch.step
    named: dict[int, Extent] = {}
    private = extra_blocks
    for request in requests:
        covered = 0
        for extent in request.extents:
            named[id(extent)] = extent
            covered += extent.num_blocks
        private += held_blocks(request, step, kv.block_tokens) - covered
    held = list(named.values())
    kv.check_integrity(private + sum(extent.num_blocks for extent in held), held)
