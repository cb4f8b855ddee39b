"""Cases of attention over paged keys and values, head width 128, bf16."""

from abc import abstractmethod
from dataclasses import dataclass
from random import Random
from typing import ClassVar, Literal

from hwmodels.microbench.case import ELEMENT_BYTES, HEAD_DIM, PAGE_TOKENS, Case
from hwmodels.microbench.errors import CaseError


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionCase(Case):
    """Attention of one layer.

    Attributes:
        num_heads: query heads.
        num_kv_heads: heads of keys and values; divides `num_heads`.
    """

    num_heads: int
    num_kv_heads: int

    def __post_init__(self) -> None:
        super(AttentionCase, self).__post_init__()
        if self.num_heads % self.num_kv_heads:
            raise CaseError(
                f"{self.name}: num_heads {self.num_heads} must be a multiple of num_kv_heads "
                f"{self.num_kv_heads}"
            )

    @property
    def queries_per_kv(self) -> int:
        """Query heads that share one head of keys and values."""
        return self.num_heads // self.num_kv_heads

    @property
    def token_bytes(self) -> int:
        """Keys and values of one token, bytes."""
        return 2 * ELEMENT_BYTES * HEAD_DIM * self.num_kv_heads

    @property
    @abstractmethod
    def num_queries(self) -> int:
        """Query tokens of the whole batch."""

    @property
    @abstractmethod
    def stored_tokens(self) -> int:
        """Tokens whose keys and values are stored, shared ones counted once."""

    @property
    @abstractmethod
    def num_pairs(self) -> int:
        """Pairs of a query token and a token that it sees."""

    @property
    def read_tokens(self) -> int:
        """Tokens that the kernel reads if every request reads its whole context once."""
        return self.stored_tokens

    @property
    def num_bytes(self) -> int:
        """Keys and values once, queries and results."""
        return self.stored_tokens * self.token_bytes + self._query_bytes

    @property
    def num_flops(self) -> int:
        """Scores and weighted values: 4 per pair, query head and element of a head."""
        return 4 * self.num_pairs * self.num_heads * HEAD_DIM

    @property
    def read_bytes(self) -> int:
        """Keys and values as often as requests read them, queries and results."""
        return self.read_tokens * self.token_bytes + self._query_bytes

    @property
    def _query_bytes(self) -> int:
        return 2 * ELEMENT_BYTES * HEAD_DIM * self.num_heads * self.num_queries

    @property
    def compile_key(self) -> str:
        """The kernels are compiled for the query heads of one KV head."""
        return f"{self.name}:{self.queries_per_kv}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeAttentionCase(AttentionCase):
    """One query per request, no context shared.

    Attributes:
        batch: requests.
        context: tokens of a context, see `lengths`.
        splits: parts into which a context is cut, one thread block each; 1: none.
        lengths: equal, all `context`; one_long, one of `ratio * context` and the others `context`;
            spread, evenly from `context` to `ratio * context`, in random order.
        ratio: the longest context over the shortest; 1 for equal.
    """

    name: ClassVar[str] = "decode_attention"
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"lengths": ("equal", "one_long", "spread")}

    batch: int
    context: int
    splits: int = 1
    lengths: Literal["equal", "one_long", "spread"] = "equal"
    ratio: int = 1

    def __post_init__(self) -> None:
        super(DecodeAttentionCase, self).__post_init__()
        if self.lengths == "equal" and self.ratio != 1:
            raise CaseError(f"{self.name}: equal lengths have ratio 1, found {self.ratio}")

    @property
    def contexts(self) -> list[int]:
        """Context of each request, tokens, shape (batch,)."""
        if self.lengths == "equal" or self.batch == 1:
            return [self.context] * self.batch
        if self.lengths == "one_long":
            longest = [self.ratio * self.context]
            return [self.context] * (self.batch - 1) + longest
        span = self.context * (self.ratio - 1)
        spread = [self.context + span * rank // (self.batch - 1) for rank in range(self.batch)]
        Random(0).shuffle(spread)
        return spread

    @property
    def num_queries(self) -> int:
        """One per request."""
        return self.batch

    @property
    def stored_tokens(self) -> int:
        """All contexts."""
        return sum(self.contexts)

    @property
    def num_pairs(self) -> int:
        """Each query sees its whole context."""
        return sum(self.contexts)

    @property
    def compile_key(self) -> str:
        """The split kernel writes partial results."""
        return f"{self.name}:{self.queries_per_kv}:{self.splits > 1}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _GroupedCase(AttentionCase):
    """Requests in groups; those of a group share a prefix and each has its own suffix.

    Attributes:
        groups: prefixes.
        members: requests of each group.
        prefix_tokens: length of a prefix.
        suffix_tokens: length of a suffix.
    """

    groups: int
    members: int
    prefix_tokens: int
    suffix_tokens: int

    @property
    def batch(self) -> int:
        """Requests."""
        return self.groups * self.members

    @property
    def num_queries(self) -> int:
        """One per request."""
        return self.batch

    @property
    def stored_tokens(self) -> int:
        """Each prefix once and all suffixes."""
        return self.groups * self.prefix_tokens + self.batch * self.suffix_tokens

    @property
    def num_pairs(self) -> int:
        """Each query sees its prefix and its suffix."""
        return self.batch * (self.prefix_tokens + self.suffix_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPrefixCase(_GroupedCase):
    """Decode attention that does not know of the sharing: each request reads its whole context.

    Never split. What the L2 cache saves shows in the time.

    Attributes:
        member_order: contiguous, the members of a group side by side in the batch; interleaved,
            request i belongs to group i modulo `groups`.
        cache: warm, runs follow one another on the same data; cold, the L2 cache is overwritten
            before each run.
    """

    name: ClassVar[str] = "shared_prefix"
    choices: ClassVar[dict[str, tuple[str, ...]]] = {
        "member_order": ("contiguous", "interleaved"),
        "cache": ("warm", "cold"),
    }

    member_order: Literal["contiguous", "interleaved"]
    cache: Literal["warm", "cold"]

    def __post_init__(self) -> None:
        super(SharedPrefixCase, self).__post_init__()
        if self.prefix_tokens % PAGE_TOKENS:
            raise CaseError(
                f"{self.name}: prefix_tokens must be a multiple of {PAGE_TOKENS}, "
                f"found {self.prefix_tokens}"
            )

    @property
    def group_of_request(self) -> list[int]:
        """Group of each request in the order of the batch, shape (batch,)."""
        if self.member_order == "contiguous":
            return [request // self.members for request in range(self.batch)]
        return [request % self.groups for request in range(self.batch)]

    @property
    def read_tokens(self) -> int:
        """Every request reads its prefix."""
        return self.num_pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadeCase(AttentionCase):
    """One prefix that all requests share, read once for all queries; suffixes; merge.

    Attributes:
        batch: requests.
        prefix_tokens: length of the prefix.
        suffix_tokens: length of each suffix.
    """

    name: ClassVar[str] = "cascade"

    batch: int
    prefix_tokens: int
    suffix_tokens: int

    @property
    def num_queries(self) -> int:
        """One per request."""
        return self.batch

    @property
    def stored_tokens(self) -> int:
        """The prefix once and all suffixes."""
        return self.prefix_tokens + self.batch * self.suffix_tokens

    @property
    def num_pairs(self) -> int:
        """Each query sees the prefix and its suffix."""
        return self.batch * (self.prefix_tokens + self.suffix_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedCase(_GroupedCase):
    """Every prefix read once for the queries of its group; suffixes; merge."""

    name: ClassVar[str] = "packed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillCase(AttentionCase):
    """Causal attention of one chunk per request over its paged prefix and over itself.

    Attributes:
        chunk_tokens: query tokens of each request.
        prefix_tokens: tokens of each request before its chunk; may be 0.
        batch: requests.
    """

    name: ClassVar[str] = "prefill"
    may_be_zero: ClassVar[tuple[str, ...]] = ("prefix_tokens",)

    chunk_tokens: int
    prefix_tokens: int
    batch: int = 1

    @property
    def num_queries(self) -> int:
        """The chunks."""
        return self.batch * self.chunk_tokens

    @property
    def stored_tokens(self) -> int:
        """Prefixes and chunks."""
        return self.batch * (self.prefix_tokens + self.chunk_tokens)

    @property
    def num_pairs(self) -> int:
        """Each token of a chunk sees the prefix and the chunk up to itself."""
        return self.batch * _causal_pairs(self.chunk_tokens, self.prefix_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedCase(AttentionCase):
    """Decodes and one prefill chunk in the same step.

    Attributes:
        batch: requests that decode.
        context: tokens of each of their contexts.
        chunk_tokens: query tokens of the chunk.
        prefix_tokens: tokens before the chunk; may be 0.
        form: fused, one variable-length call over all; separate, a prefill call, then a decode
            call without splits.
    """

    name: ClassVar[str] = "mixed"
    choices: ClassVar[dict[str, tuple[str, ...]]] = {"form": ("fused", "separate")}
    may_be_zero: ClassVar[tuple[str, ...]] = ("prefix_tokens",)

    batch: int
    context: int
    chunk_tokens: int
    prefix_tokens: int
    form: Literal["fused", "separate"]

    @property
    def num_queries(self) -> int:
        """One per decode, and the chunk."""
        return self.batch + self.chunk_tokens

    @property
    def stored_tokens(self) -> int:
        """All contexts, and the chunk with its prefix."""
        return self.batch * self.context + self.prefix_tokens + self.chunk_tokens

    @property
    def num_pairs(self) -> int:
        """Decodes see their contexts, the chunk its prefix and itself up to each token."""
        return self.batch * self.context + _causal_pairs(self.chunk_tokens, self.prefix_tokens)

    @property
    def compile_key(self) -> str:
        """The forms use other kernels."""
        return f"{self.name}:{self.queries_per_kv}:{self.form}"


def _causal_pairs(chunk_tokens: int, prefix_tokens: int) -> int:
    return chunk_tokens * prefix_tokens + chunk_tokens * (chunk_tokens + 1) // 2
