"""What an instance will do in its next step or run of equal steps."""

from mypy_extensions import mypyc_attr

from sim.interfaces import PrefillChunk
from sim.request import Request


@mypyc_attr(allow_interpreted_subclasses=True)
class StepPlan:
    """Content of one forward pass beside the decode batch; reused from step to step.

    Attributes:
        chunks: prefill work, in running order; of a run of chunks the first one.
        completing: requests whose prefill this step completes.
        counted_chunks: in a run of chunks, those that are off the queued prefill tokens.
        decode_blocks: KV blocks taken so far for the tokens that decodes gain in this step or run.
        has_preempted: whether making room for the step preempted a request.
        prefill_tokens: tokens in the chunks.
    """

    __slots__ = (
        "chunks",
        "completing",
        "counted_chunks",
        "decode_blocks",
        "has_preempted",
        "prefill_tokens",
    )

    def __init__(self) -> None:
        self.chunks: list[PrefillChunk] = []
        self.completing: list[Request] = []
        self.counted_chunks = 0
        self.decode_blocks = 0
        self.prefill_tokens = 0
        self.has_preempted = False
