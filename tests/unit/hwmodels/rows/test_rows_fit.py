"""Measure a synthetic device, fit it, and compare with what it was made of."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hwmodels.device import load_profile
from hwmodels.fitting.kernel_transfer import transfer_kernels
from hwmodels.fitting.rows_file import RowsFile
from hwmodels.fitting.rows_fit import RowsFit, fit_rows
from hwmodels.fitting.rows_priors import Priors, priors_of
from hwmodels.fitting.rows_recipes import numbers_of
from hwmodels.fitting.rows_validation import compare_rows
from hwmodels.fitting.validation import FITTED, Comparison
from hwmodels.kernels.models import KernelModels
from hwmodels.microbench.cases import AllReduceCase, GemmCase, StreamCase
from hwmodels.synthetic_device import NOISE
from sim.errors import ConfigError
from tests.unit.hwmodels.rows.measured import (
    DATE,
    HIDDEN,
    SPEC,
    hidden_with_drift,
    measured,
    written,
)

FITTED_KERNELS = (
    "gemm",
    "decode_attention",
    "prefill_attention",
    "mixed_attention",
    "l2",
    "shared_prefix",
)
DRIFT = 600.0
"""So large that requests of a wave miss, which the rows then show."""
WITH_DRIFT = hidden_with_drift(DRIFT)
SEED = 3

Fit = tuple[RowsFile, RowsFit]


@pytest.fixture(scope="module")
def fit(tmp_path_factory: pytest.TempPathFactory) -> Fit:
    """An A100, from priors of an H100 as for a GPU that nobody measured."""
    file = measured(tmp_path_factory.mktemp("rows") / "rows.jsonl", WITH_DRIFT, seed=SEED)
    source = load_profile("h100_sxm")
    models = transfer_kernels(source.kernels, source, SPEC, DATE)
    return file, fit_rows(SPEC, file, Priors(models=models, origin=source.name))


def identified(models: KernelModels) -> Iterator[tuple[str, float, float, float]]:
    """Constant, value, hidden value and stated error of what is identified."""
    for kernel in FITTED_KERNELS:
        values, truth = (numbers_of(getattr(one, kernel)) for one in (models, WITH_DRIFT))
        for name, error in models.provenance[kernel].standard_errors.items():
            if error is not None:
                yield f"{kernel}.{name}", values[name], truth[name], error


def test_what_is_identified_lies_within_three_stated_errors(fit: Fit) -> None:
    models = fit[1].profile(DATE)
    found = list(identified(models))
    names = {name for name, _, _, _ in found}
    assert len(found) >= 35
    for name, value, truth, error in found:
        assert abs(value - truth) <= 3 * error + 1e-9 * truth, name
        assert error <= 0.31 * value, name
    assert {
        "gemm.flops_per_s",
        "gemm.hbm_bytes_per_s",
        "decode_attention.hbm_bytes_per_s",
        "decode_attention.cta_gqa_bytes_per_s",
        "decode_attention.cta_mha_bytes_per_s",
        "decode_attention.combine_s",
        "decode_attention.straggler_bytes_per_s",
        "prefill_attention.flops_per_s",
        "mixed_attention.block_s",
        "l2.midpoint_bytes",
        "l2.log_width",
        "l2.l2_bytes_per_s",
        "l2.hbm_bytes_per_s",
        "shared_prefix.flash_pat_gqa_bytes_per_s",
        "shared_prefix.flash_pat_mha_bytes_per_s",
        "shared_prefix.cta_slots",
        "shared_prefix.drift_tokens",
        "shared_prefix.packed.hbm_bytes_per_s",
        "shared_prefix.packed.flops_per_s",
    } <= names


def test_errors_are_as_large_as_stated_and_not_larger(fit: Fit) -> None:
    ratios = [
        (value - truth) / error
        for name, value, truth, error in identified(fit[1].profile(DATE))
        if name != "shared_prefix.cta_slots"  # a whole number of blocks: right or far off
    ]
    assert 0.6 < float(np.sqrt(np.mean(np.square(ratios)))) < 1.5


def test_slots_are_found_exactly(fit: Fit) -> None:
    assert WITH_DRIFT.shared_prefix is not None
    assert fit[1].models["shared_prefix"].cta_slots == WITH_DRIFT.shared_prefix.cta_slots
    assert (
        fit[1].provenance["shared_prefix"].source.count("Of 1 to 16 blocks per processor, 2") == 1
    )


def test_the_tiles_are_those_of_the_device_and_not_of_the_prior(fit: Fit) -> None:
    assert HIDDEN.gemm is not None
    sizes = [(tile.m, tile.n) for tile in fit[1].models["gemm"].tiles]
    assert sizes == [(tile.m, tile.n) for tile in HIDDEN.gemm.tiles]
    assert len(fit[1].priors.models.gemm.tiles) == 1  # type: ignore[union-attr]


def test_held_out_errors_are_those_of_the_noise(fit: Fit) -> None:
    for kernel in FITTED_KERNELS:
        stated = fit[1].provenance[kernel].heldout_mape
        assert stated is not None
        assert 0.5 * NOISE < stated < 1.6 * NOISE, kernel


def test_validation_errors_are_those_of_the_noise(fit: Fit) -> None:
    file, result = fit
    found = compare_rows(result.profile(DATE), file)
    medians = {one.kernel: one.errors.median for one in found if one.subset == FITTED}
    assert set(medians) == {
        *FITTED_KERNELS,
        "mixed, separate",
        "packed",
        "cascade",
    }
    for kernel, median in medians.items():
        assert median < NOISE, kernel
    own = subset(found, "gemm", "the kernel of this package")
    assert own.errors.bias == pytest.approx(1 / 1.3 - 1, abs=0.02), "no profile has its constants"
    assert subset(found, "shared_prefix", "cold").errors.num_rows < 229
    assert subset(found, "gemm", FITTED).heldout_mape == result.provenance["gemm"].heldout_mape


def subset(found: list[Comparison], kernel: str, name: str) -> Comparison:
    (one,) = [one for one in found if (one.kernel, one.subset) == (kernel, name)]
    return one


def test_a_profile_says_where_it_comes_from(fit: Fit) -> None:
    file, result = fit
    models = result.profile("2026-02-03")
    assert models.date == "2026-02-03"
    assert models.inputs["rows.jsonl"] == file.sha256
    assert models.device == SPEC.name
    record = models.provenance["gemm"]
    assert record.source.startswith(f"microbenchmarks on synthetic a100_sxm_80gb, {DATE}; fitted")
    assert not record.is_extrapolated
    assert record.num_rows == result.fitted["gemm"].rows.num_rows
    assert [name for name, one in models.provenance.items() if one.is_extrapolated] == [
        "moe",
        "all_reduce",
        "nccl",
        "small_ops",
    ]
    assert KernelModels.from_json(models.to_json()) == models


def test_ranges_bear_the_names_of_shipped_profiles(fit: Fit) -> None:
    models = fit[1].profile(DATE)
    for kernel in ("gemm", "decode_attention", "prefill_attention", "mixed_attention", "l2"):
        found, shipped = (one.provenance[kernel].valid for one in (models, HIDDEN))
        assert found.keys() == shipped.keys(), kernel
    assert models.provenance["decode_attention"].valid["batch_size"] == (1.0, 256.0)
    assert models.provenance["shared_prefix"].valid["num_kv_heads"] == (1.0, 32.0)


def test_siblings_are_the_kernels_fitted_here(fit: Fit) -> None:
    models = fit[1].profile(DATE)
    tree = models.shared_prefix
    assert tree is not None
    assert (tree.l2, tree.decode_attention) == (models.l2, models.decode_attention)
    assert tree.prefill_attention == models.prefill_attention


def test_outliers_are_left_out_and_counted(fit: Fit) -> None:
    reasons = [
        entry
        for found in fit[1].fitted.values()
        for entry in found.rows.left_out
        if "times the scatter" in entry.reason
    ]
    assert 5 <= sum(entry.num_rows for entry in reasons) <= 30, "2 % of 700 rows"


def test_the_price_of_a_cascade_and_the_launches_are_measured_too(fit: Fit) -> None:
    result = fit[1]
    cascade = result.fitted["cascade"]
    error = cascade.result.standard_errors["scale"]
    assert error is not None
    assert cascade.model.scale == pytest.approx(1.0, abs=3 * error)
    assert error < 0.03
    assert "measured over priced" in result.provenance["shared_prefix"].source
    assert result.fitted["launch"].model.kernel_s == pytest.approx(2.2e-6, rel=0.05)
    assert result.fitted["graph_replay"].model.kernel_s == pytest.approx(1.1e-6, rel=0.05)
    rate = result.fitted["copy h2d pinned"].model.bytes_per_s
    assert rate == pytest.approx(0.8 * SPEC.pcie_bytes_per_s, rel=0.05)


def test_what_the_rows_do_not_show_is_named_and_kept_at_its_prior(tmp_path: Path) -> None:
    # A drift at which nothing misses, and noise whose best fit lies at three times of it.
    file = measured(tmp_path / "rows.jsonl", seed=4)
    file = only(file, "stream", "shared_prefix")
    priors = priors_of(SPEC, DATE)
    result = fit_rows(SPEC, file, priors)
    found = result.fitted["shared_prefix"]
    assert "drift_tokens" in found.result.not_identified
    assert HIDDEN.shared_prefix is not None
    assert found.model.drift_tokens == HIDDEN.shared_prefix.drift_tokens
    record = result.provenance["shared_prefix"]
    assert record.standard_errors["drift_tokens"] is None
    assert "Not identified, kept at the prior: drift_tokens" in record.source
    assert result.models["gemm"] == HIDDEN.gemm, "no rows: the profile's own"
    assert result.provenance["gemm"] == HIDDEN.provenance["gemm"]
    assert result.notes == {}


def test_terms_and_limits_that_a_kernel_lacks_are_not_taken_from_the_prior(
    tmp_path: Path,
) -> None:
    assert HIDDEN.decode_attention is not None
    plain = replace(
        HIDDEN.decode_attention,
        head_swap_s=0.0,
        cta_gqa_bytes_per_s=None,
        cta_mha_bytes_per_s=None,
    )
    file = measured(tmp_path / "rows.jsonl", replace(HIDDEN, decode_attention=plain))
    file = only(file, "decode_attention")
    found = fit_rows(SPEC, file, priors_of(SPEC, DATE)).models["decode_attention"]
    assert found.head_swap_s == 0.0
    assert found.cta_gqa_bytes_per_s is None
    assert found.cta_mha_bytes_per_s is None
    assert found.launch_s == pytest.approx(plain.launch_s, rel=0.05)


def only(file: RowsFile, *benchmarks: str) -> RowsFile:
    """The rows of some benchmarks."""
    return replace(file, tables={name: file.tables[name] for name in benchmarks})


def test_too_few_rows_leave_a_kernel_as_it_was(tmp_path: Path) -> None:
    cases = [StreamCase(op="read", data_set_bytes=size * 2**20) for size in (8, 16, 512)]
    products = [GemmCase(m=m, n=4096, k=4096, impl="library") for m in (1, 64)]
    file = written(tmp_path / "rows.jsonl", [*cases, *products])
    result = fit_rows(SPEC, file, priors_of(SPEC, DATE))
    assert result.models["l2"] == HIDDEN.l2
    assert result.models["gemm"] == HIDDEN.gemm
    assert result.notes["stream"] == "3 rows in range, a fit needs 9"
    assert result.notes["gemm"] == "2 rows in range, a fit needs 10"


def test_groups_of_gpus_that_were_measured_replace_those_of_the_prior(tmp_path: Path) -> None:
    cases = [
        AllReduceCase(num_bytes=4**power, num_gpus=num_gpus)
        for num_gpus in (2, 4)
        for power in range(6, 14)
    ]
    file = written(tmp_path / "rows.jsonl", cases, num_gpus=4)
    source = load_profile("h100_sxm")
    models = transfer_kernels(source.kernels, source, SPEC, DATE)
    result = fit_rows(SPEC, file, Priors(models=models, origin=source.name))
    assert HIDDEN.nccl is not None
    assert models.nccl is not None
    found = {group.num_gpus: group for group in result.models["nccl"].groups}
    truth = {group.num_gpus: group for group in HIDDEN.nccl.groups}
    prior = {group.num_gpus: group for group in models.nccl.groups}
    for number in (2, 4):
        assert found[number].bytes_per_s == pytest.approx(truth[number].bytes_per_s, rel=0.01)
        assert found[number].base_s == pytest.approx(truth[number].base_s, rel=0.01)
    assert found[8] == prior[8] != truth[8]
    assert not result.provenance["nccl"].is_extrapolated


def test_a_short_measurement_gives_a_whole_profile(tmp_path: Path) -> None:
    file = measured(tmp_path / "rows.jsonl", budget_s=6.0)
    assert set(file.tables) == {"stream", "shared_prefix"}
    result = fit_rows(SPEC, file, priors_of(SPEC, DATE))
    models = result.profile(DATE)
    assert KernelModels.from_json(models.to_json()) == models
    errors = models.provenance["shared_prefix"].standard_errors
    assert errors["packed.hbm_bytes_per_s"] is None, "no rows of it"


def test_a_fit_does_not_depend_on_the_order_of_the_rows(tmp_path: Path) -> None:
    products = [
        GemmCase(m=m, n=n, k=k, impl="library")
        for m in (1, 64, 1024)
        for n, k in ((1024, 4096), (4096, 4096), (6144, 4096), (4096, 14336))
    ]
    found = []
    for name, cases in (("one", products), ("two", products[::-1])):
        file = written(tmp_path / f"{name}.jsonl", cases)
        found.append(fit_rows(SPEC, file, priors_of(SPEC, DATE)).models["gemm"])
    assert found[0] == found[1]


def test_rows_of_another_gpu_are_refused(fit: Fit) -> None:
    with pytest.raises(
        ConfigError, match="with 108 processors, the profile of h200_sxm counts 132"
    ):
        compare_rows(load_profile("h200_sxm").kernels, fit[0])
