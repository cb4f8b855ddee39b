"""How the constants of shared-prefix kernels are fitted: to ratios of times, on an A100."""

import numpy as np

from hwmodels.device import DeviceSpec
from hwmodels.fitting.parameter import FloatArray, Parameter
from hwmodels.fitting.recipe import Columns, Recipe, Values
from hwmodels.kernels.arrays import smooth_max
from hwmodels.kernels.decode_attention import DecodeAttentionModel
from hwmodels.kernels.l2_curve import L2Curve
from hwmodels.kernels.packed import PackedModel
from hwmodels.kernels.prefill_attention import PrefillAttentionModel
from hwmodels.kernels.prefix_batch import PrefixBatch
from hwmodels.kernels.shared_prefix import SharedPrefixModel
from hwmodels.measurements.rows import MeasuredRows
from hwmodels.measurements.shared_prefix import PrefixTreeRow, PrefixTreeRows

RESTATED = (
    "Only ratios of times were measured: hbm_bytes_per_s sets the scale and was not fitted. Launch "
    "times and exponents are restated from an earlier fit to twice as many trees, for ten trees do "
    "not fix them. Slots and drift are assumed; no ratio identifies them, nor the hits within a "
    "wave."
)

LAUNCH_S = 1.2e-5
PACKED_LAUNCH_S = 1.215e-5
P_NORM = 3.6
PACKED_P_NORM = 1.68
"""Restated constants; see `RESTATED`."""

HBM_SHARE = 0.858
"""Share of the memory's peak that sets the scale: 1750 of 2039 GB/s on the A100 (assumed)."""

DRIFT_TOKENS = 128.0
"""Tokens by which requests of one wave run apart (assumed: one block of the kernel)."""

CTA_PER_SM = 2

SIBLINGS = frozenset({"l2", "decode_attention", "prefill_attention"})

SLOWEST_RATIO = 0.1
"""Slowest kernel whose bar in the figure can be read, relative to the fastest."""

_OBLIVIOUS = ("flashinfer", "flash_pat")
_HEAD_DIM = 128
_KV_BYTES = 4


def ratio_rows(trees: PrefixTreeRows) -> MeasuredRows:
    """Rows whose "time" is the time of one kernel over that of `packed` on the same tree.

    Columns: `tree_id`, `num_heads`, `num_kv_heads`, `kernel` (0 flashinfer, 1 flash_pat), and
    `row`, the place of the row in the table. Left out: a kernel at less than a tenth of the best
    speed, of which the figure was read to 15 % at best.
    """
    pairs = _pairs(trees)
    columns = {
        "row": list(range(len(pairs))),
        "tree_id": [row.tree_id for row, _ in pairs],
        "num_heads": [row.num_heads for row, _ in pairs],
        "num_kv_heads": [row.num_kv_heads for row, _ in pairs],
        "kernel": [_OBLIVIOUS.index(row.kernel) for row, _ in pairs],
    }
    ratios = [packed.performance_ratio / row.performance_ratio for row, packed in pairs]
    rows = MeasuredRows(
        columns={name: np.array(column, dtype=np.float64) for name, column in columns.items()},
        time_s=np.array(ratios, dtype=np.float64),
        source=trees.source,
        sha256=trees.sha256,
        left_out=trees.left_out,
    )
    slowest = np.array([min(row.performance_ratio, p.performance_ratio) for row, p in pairs])
    reason = "under a tenth of the best speed: read off the figure to 15 % at best"
    return rows.where(slowest >= SLOWEST_RATIO, reason)


class RatioTraffic:
    """Bytes and tokens of every row, which no fitted constant changes, so that a fit is quick."""

    def __init__(self, trees: PrefixTreeRows, model: SharedPrefixModel) -> None:
        """Count the traffic of all rows with the L2 curve, the slots and the drift of a model."""
        rows = [row for row, _ in _pairs(trees)]
        batches = [
            PrefixBatch.from_levels(row.nodes_per_level, row.tokens_per_level) for row in rows
        ]
        traffic = [
            model.traffic(
                batch, row.num_heads, row.num_kv_heads, _HEAD_DIM, "flash_pat", "contiguous"
            )
            for row, batch in zip(rows, batches, strict=True)
        ]
        self._logical = np.array([float(one.logical_bytes[0]) for one in traffic])
        self._from_hbm = np.array([float(one.hbm_bytes[0]) for one in traffic])
        token_bytes = np.array([_KV_BYTES * _HEAD_DIM * row.num_kv_heads for row in rows])
        self._unique = token_bytes * np.array([batch.unique_tokens for batch in batches])
        self._context = np.array([batch.context_tokens_sum for batch in batches])
        self._partials = np.array([batch.num_partials for batch in batches])

    def ratios(self, model: SharedPrefixModel, columns: Columns) -> FloatArray:
        """Times over those of the packed kernel, shape (rows,)."""
        place = columns["row"].astype(np.int64)
        heads, kv_heads = columns["num_heads"], columns["num_kv_heads"]
        rates = np.array(
            [
                [model.flashinfer_mha_bytes_per_s, model.flashinfer_gqa_bytes_per_s],
                [model.flash_pat_mha_bytes_per_s, model.flash_pat_gqa_bytes_per_s],
            ]
        )[columns["kernel"].astype(np.int64), (heads > kv_heads).astype(np.int64)]
        bound_s = self._from_hbm[place] / model.hbm_bytes_per_s
        oblivious_s = model.launch_s + smooth_max(
            self._logical[place] / rates, bound_s, model.p_norm
        )
        packed_s = np.empty(place.size)
        for num_heads in np.unique(heads):
            chosen = heads == num_heads
            packed_s[chosen] = model.packed.time_s(
                self._context[place[chosen]],
                self._unique[place[chosen]],
                self._partials[place[chosen]],
                int(num_heads),
                _HEAD_DIM,
            )
        return np.asarray(oblivious_s / packed_s)


def shared_prefix_recipe(
    device: DeviceSpec,
    trees: PrefixTreeRows,
    l2: L2Curve,
    decode_attention: DecodeAttentionModel | None,
    prefill_attention: PrefillAttentionModel | None,
) -> Recipe[SharedPrefixModel]:
    """Recipe for `flash_pat`, `flashinfer` and `packed` on the trees of the figure."""
    rates = {
        "flash_pat_gqa_bytes_per_s": 2.9e12,
        "flash_pat_mha_bytes_per_s": 2.6e12,
        "flashinfer_gqa_bytes_per_s": 4.6e12,
        "flashinfer_mha_bytes_per_s": 5.6e12,
    }
    parameters = (
        *(Parameter(name=name, start=rate, low=1e12, high=2e13) for name, rate in rates.items()),
        Parameter(
            name="packed.flops_per_s",
            start=0.53 * device.peak_flops_per_s,
            low=0.1 * device.peak_flops_per_s,
            high=device.peak_flops_per_s,
        ),
        Parameter(name="packed.merge_bytes_per_s", start=3e12, low=3e11, high=3e13),
    )
    hbm_bytes_per_s = HBM_SHARE * device.hbm_bytes_per_s

    def build(values: Values) -> SharedPrefixModel:
        own = {name: value for name, value in values.items() if "." not in name}
        packed = {name.removeprefix("packed."): values[name] for name in values if "." in name}
        return SharedPrefixModel(
            hbm_bytes_per_s=hbm_bytes_per_s,
            launch_s=LAUNCH_S,
            p_norm=P_NORM,
            cta_slots=CTA_PER_SM * device.num_sms,
            drift_tokens=DRIFT_TOKENS,
            packed=PackedModel(
                launch_s=PACKED_LAUNCH_S,
                hbm_bytes_per_s=hbm_bytes_per_s,
                p_norm=PACKED_P_NORM,
                **packed,
            ),
            l2=l2,
            decode_attention=decode_attention,
            prefill_attention=prefill_attention,
            **own,
        )

    first_guess = build({parameter.name: parameter.start for parameter in parameters})
    traffic = RatioTraffic(trees, first_guess)

    return Recipe(
        kernel="shared_prefix",
        parameters=parameters,
        build=build,
        predict_s=traffic.ratios,
        shape_columns=("tree_id",),
        valid_columns=("num_heads", "num_kv_heads"),
        in_scope=lambda columns: np.ones(columns["kernel"].size, dtype=bool),
        scope="ratios of times to the packed kernel, requests in the order of the tree",
        restated=RESTATED,
        siblings=SIBLINGS,
    )


def _pairs(trees: PrefixTreeRows) -> list[tuple[PrefixTreeRow, PrefixTreeRow]]:
    """Each row of a kernel that ignores sharing, with that of the packed one on its tree."""
    packed = {_key(row): row for row in trees.rows if row.kernel == "packed"}
    return [
        (row, packed[_key(row)])
        for row in trees.rows
        if row.kernel in _OBLIVIOUS and _key(row) in packed
    ]


def _key(row: PrefixTreeRow) -> tuple[int, int, int]:
    return row.tree_id, row.num_heads, row.num_kv_heads
