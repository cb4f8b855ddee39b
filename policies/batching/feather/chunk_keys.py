"""Keys of a prompt's chunks that are equal exactly where the prompts are.

Feather cuts a prompt into chunks of K tokens, hashes each and chains the hashes, so that two
requests agree on key c if and only if they share everything up to the end of chunk c. The simulator
keeps no token contents, but it knows who owns every token: a node of the prefix tree, which fixes
all tokens before it, or the request alone. The pair (owner of a chunk's last token, tokens up to
its end) says the same as the chained hash, and cannot collide.

Chunks whose last tokens have one owner are held together by whoever holds the owner's tokens up to
their end, so they are passed on as runs, in O(path) and not O(chunks).
"""

from typing import NamedTuple

from sim.request import Request

_OWNERS = 1 << 40
"""More owners than a workload has."""


class ChunkRun(NamedTuple):
    """Consecutive chunks of a request whose last tokens have one owner.

    Attributes:
        owner: who owns the last token of each.
        first_level: chunks before the first one.
        num_chunks: chunks in the run, >= 1.
        end_tokens: tokens up to the end of the last chunk.
    """

    owner: int
    first_level: int
    num_chunks: int
    end_tokens: int

    def key(self, index: int, chunk_tokens: int) -> int:
        """Key of the chunk at `index` of the run."""
        end = min((self.first_level + index + 1) * chunk_tokens, self.end_tokens)
        return chunk_key(self.owner, end)


def chunk_key(owner: int, end_tokens: int) -> int:
    """Key of the chunk that ends after `end_tokens` tokens, the last of which `owner` owns."""
    return end_tokens * _OWNERS + owner


def chunk_runs(request: Request, chunk_tokens: int) -> list[ChunkRun]:
    """Chunks of what a request has to prefill, in order: prompt and what it generated before.

    The last chunk may be partial; it is included, as in the published code. In a shared node it is
    a run of its own, since a longer request has a full chunk in its place.

    Args:
        request: a waiting request.
        chunk_tokens: K, tokens per chunk, >= 1.
    """
    runs: list[ChunkRun] = []
    level = 0
    for owner, end in owned_tokens(request):
        full = end // chunk_tokens - level
        if full > 0:
            runs.append(ChunkRun(owner, level, full, (level + full) * chunk_tokens))
            level += full
    if end % chunk_tokens:
        runs.append(ChunkRun(owner, level, 1, end))
    return runs


def owned_tokens(request: Request) -> list[tuple[int, int]]:
    """Owners of a request's tokens, each with the number of tokens up to the end of its own.

    What a request generates belongs to its output node where it has one.
    """
    owned = [
        (2 * node, end) for node, end in zip(request.path, request.path_end_tokens, strict=True)
    ]
    total = request.total_tokens
    if not owned or owned[-1][1] < total:
        node = request.output_node
        owned.append((2 * node if node >= 0 else 2 * request.request_id + 1, total))
    return owned


def chunk_keys(request: Request, chunk_tokens: int) -> list[int]:
    """Key of every chunk, first one first. Shape (chunks,)."""
    return [
        run.key(index, chunk_tokens)
        for run in chunk_runs(request, chunk_tokens)
        for index in range(run.num_chunks)
    ]
