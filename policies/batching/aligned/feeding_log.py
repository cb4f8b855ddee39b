"""What a controller of batches did, for figures after the run."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class FeedingLog:
    """Written while a run goes on.

    Attributes:
        batch_of: number of the batch that each request joined last, by row.
        first_asked_s: when its KV was first asked for on a decode GPU, by row, seconds.
        num_batches: batches that were switched in.
        num_aligned: those of them whose requests an interval gave, not their age.
        num_batch_requests: requests of all of them.
        num_topped_up: requests that joined a batch later.
        num_evicted: requests that a decode instance gave up for lack of blocks.
        num_sent_back: requests that went back to the pool, for their batch had ended.
        pool_byte_seconds: integral over time of the KV in the pool.
        pool_bytes: KV in the pool at `pool_s`.
        pool_s: time of the last change, seconds.
    """

    batch_of: dict[int, int] = field(default_factory=dict)
    first_asked_s: dict[int, float] = field(default_factory=dict)
    num_batches: int = 0
    num_aligned: int = 0
    num_batch_requests: int = 0
    num_topped_up: int = 0
    num_evicted: int = 0
    num_sent_back: int = 0
    pool_byte_seconds: float = 0.0
    pool_bytes: int = 0
    pool_s: float = 0.0

    def note_pool(self, num_bytes: int, now_s: float) -> None:
        """The pool holds so many bytes from now on."""
        self.pool_byte_seconds += self.pool_bytes * (now_s - self.pool_s)
        self.pool_bytes, self.pool_s = num_bytes, now_s

    def note_join(self, row: int, batch: int, now_s: float) -> None:
        """The KV of a request of a batch was asked for."""
        self.batch_of[row] = batch
        self.first_asked_s.setdefault(row, now_s)
