"""Seconds of the microbenchmarks of one kernel each, by the models of a profile.

A benchmark says how it ran (splits, unequal lengths, which of two forms), where a profile chooses.
Both the synthetic device and the fits ask here. Not modelled: Triton's own GEMM, whose rows only
stand beside those of the library.
"""

from dataclasses import dataclass, field, fields

import numpy as np

from hwmodels.fitting.parameter import FloatArray
from hwmodels.fitting.recipe import Columns
from hwmodels.fitting.rows_file import HEAD_DIM
from hwmodels.kernels.arrays import Numbers
from hwmodels.kernels.cascade import prefix_pass_s
from hwmodels.kernels.decode_attention import DecodeAttentionModel
from hwmodels.kernels.packed import PackedModel
from hwmodels.kernels.parameters import COUNT, WEIGHT, check_parameters
from hwmodels.kernels.prefill_attention import PrefillAttentionModel


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenSplits(DecodeAttentionModel):
    """The decode form with the number of splits that a benchmark asked for.

    Attributes:
        given_splits: parts into which every context is cut.
    """

    given_splits: int = field(metadata=COUNT)

    @classmethod
    def of(cls, model: DecodeAttentionModel, given_splits: int) -> "GivenSplits":
        """The same kernel, its choice of splits replaced."""
        own = {item.name: getattr(model, item.name) for item in fields(DecodeAttentionModel)}
        return cls(given_splits=given_splits, **own)

    def splits(
        self,
        batch_size: Numbers,
        context_tokens_max: Numbers,
        num_heads: int,
        num_kv_heads: int,
    ) -> FloatArray:
        """`given_splits` for every batch."""
        batch, longest = np.broadcast_arrays(
            np.asarray(batch_size, dtype=np.float64),
            np.asarray(context_tokens_max, dtype=np.float64),
        )
        del longest, num_heads, num_kv_heads
        return np.full(batch.shape, float(self.given_splits))


def decode_s(model: DecodeAttentionModel, columns: Columns) -> FloatArray:
    """Seconds of decode attention. Shape (rows,).

    Args:
        model: constants; its own choice of splits is not used.
        columns: `batch`, the moments `context_sum`, `context_max` and `context_squares`,
            `num_heads`, `num_kv_heads`, `splits`.
    """
    kinds = np.stack([columns[name] for name in ("num_heads", "num_kv_heads", "splits")], axis=1)
    times_s = np.empty(len(kinds))
    for num_heads, num_kv_heads, splits in np.unique(kinds, axis=0).astype(np.int64).tolist():
        chosen = (kinds == (num_heads, num_kv_heads, splits)).all(axis=1)
        times_s[chosen] = GivenSplits.of(model, splits).time_s(
            columns["batch"][chosen],
            columns["context_sum"][chosen],
            columns["context_max"][chosen],
            columns["context_squares"][chosen],
            num_heads,
            num_kv_heads,
            HEAD_DIM,
        )
    return times_s


def prefill_s(model: PrefillAttentionModel, columns: Columns) -> FloatArray:
    """Seconds of a chunk over its prefix. Shape (rows,)."""
    return model.time_s(
        columns["batch"],
        columns["chunk_tokens"],
        columns["prefix_tokens"],
        columns["num_heads"],
        columns["num_kv_heads"],
        HEAD_DIM,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadeForm:
    """A pass over the common prefix, the suffixes and a merge, times `scale`.

    `scale` becomes `cascade_scale` of the profile's shared prefixes.

    Attributes:
        scale: measured over priced.
        decode_attention: for the suffixes.
        prefill_attention: for the prefix.
        packed: for the merge.
    """

    scale: float = field(metadata=WEIGHT)
    decode_attention: DecodeAttentionModel
    prefill_attention: PrefillAttentionModel
    packed: PackedModel

    def __post_init__(self) -> None:
        check_parameters(self)


def cascade_s(model: CascadeForm, columns: Columns) -> FloatArray:
    """Seconds of a cascade. Shape (rows,)."""
    batch, suffix = columns["batch"], columns["suffix_tokens"]
    decode = model.decode_attention
    heads = np.stack([columns["num_heads"], columns["num_kv_heads"]], axis=1)
    times_s = np.empty(batch.size)
    for num_heads, num_kv_heads in np.unique(heads, axis=0).astype(np.int64).tolist():
        chosen = (heads == (num_heads, num_kv_heads)).all(axis=1)
        size, own = batch[chosen], suffix[chosen]
        prefix_s = prefix_pass_s(
            model.prefill_attention,
            size,
            columns["prefix_tokens"][chosen],
            num_heads,
            num_kv_heads,
            HEAD_DIM,
        )
        suffix_s = decode.time_s(
            size, size * own, own, size * own * own, num_heads, num_kv_heads, HEAD_DIM
        )
        merge_s = decode.launch_s + model.packed.merge_s(size, num_heads, HEAD_DIM)
        times_s[chosen] = prefix_s + suffix_s + merge_s
    return model.scale * times_s
