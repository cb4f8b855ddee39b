"""A request between its prefill and its decode: where its KV is, and where it goes."""

from typing import NamedTuple

from sim.request import Request

PREFILL_GPU, HOST_POOL, PREFILL_BUFFER, DECODE_GPU = range(4)
"""Kinds of places where KV can be: the cache of the prefill instance that made it, the memory of a
host, a buffer in the memory of a prefill instance's GPUs beside its cache, the cache of a decode
instance."""

KIND_NAMES = ("prefill GPU", "host pool", "prefill buffer", "decode GPU")


class Stage(NamedTuple):
    """A place where KV can be.

    Attributes:
        kind: PREFILL_GPU, HOST_POOL, PREFILL_BUFFER or DECODE_GPU.
        owner: id of an instance, one that prefills for the first and third kind; 0 for the host.
    """

    kind: int
    owner: int

    def __str__(self) -> str:
        return f"{KIND_NAMES[self.kind]} {self.owner}"


class MovingRequest:
    """A request that left its prefill instance's batch (or is in its last step there).

    The KV at `stage` stays until a transfer of it is complete.

    Attributes:
        request: what the decode instance will see. Its first token is out, or will be at the end of
            the prefill step under way; `computed_tokens` says how long its KV is.
        source: the same request as its prefill instance knows it.
        source_id: id of the prefill instance.
        num_bytes: size of its KV, in whole blocks.
        stage: where its KV is.
        heading_to: where it is being sent, None while nothing is under way.
        instance_id: decode instance it was assigned to, -1 before.
        is_prefilled: whether its first token is out.
        step_start_s: start of the prefill step that completes it, seconds.
        step_end_s: end of that step, seconds.
    """

    __slots__ = (
        "heading_to",
        "instance_id",
        "is_prefilled",
        "num_bytes",
        "request",
        "source",
        "source_id",
        "stage",
        "step_end_s",
        "step_start_s",
    )

    def __init__(self, source: Request, source_id: int, num_bytes: int) -> None:
        self.source = source
        self.source_id = source_id
        self.request = decode_part_of(source)
        self.num_bytes = num_bytes
        self.stage = Stage(PREFILL_GPU, source_id)
        self.heading_to: Stage | None = None
        self.instance_id = -1
        self.is_prefilled = False
        self.step_start_s = self.step_end_s = 0.0

    def __repr__(self) -> str:
        return f"MovingRequest({self.request.request_id}, at {self.stage})"


def decode_part_of(source: Request) -> Request:
    """The request as a decode instance gets it: one token out, KV of the whole prompt.

    Policies see what its prompt shares. Its blocks there are its own: it has no path in that
    instance's cache.
    """
    prompt_tokens = source.prompt_tokens
    part = Request(
        source._workload,
        source.request_id,
        source.arrival_s,
        prompt_tokens,
        source.output_tokens,
        source.path,
        source.private_tokens,
    )
    part.kv_path = ()
    part.generated_tokens = 1
    part.computed_tokens = prompt_tokens
    part.cached_tokens = source.cached_tokens
    part.admitted_s = source.admitted_s
    part.num_preemptions = source.num_preemptions
    return part
