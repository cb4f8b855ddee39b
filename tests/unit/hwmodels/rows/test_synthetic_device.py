"""A device of known constants: what its noise depends on, and what it cannot measure."""

from dataclasses import replace

import numpy as np
import pytest

from hwmodels.device import load_profile
from hwmodels.microbench.cases import (
    AllReduceCase,
    CopyCase,
    GemmCase,
    LaunchCase,
    MixedCase,
    StreamCase,
)
from hwmodels.microbench.errors import UnmeasurableError
from hwmodels.microbench.plans import plan_of
from hwmodels.microbench.row_format import VERSION_KEYS
from hwmodels.synthetic_device import (
    OUTLIER_FACTORS,
    OUTLIER_SHARE,
    SimulatedTime,
    SyntheticDevice,
)
from tests.unit.hwmodels.rows.measured import HIDDEN, SPEC

CASE = GemmCase(m=64, n=4096, k=4096, impl="library")


def test_the_noise_of_a_case_depends_on_the_seed_and_the_case_alone() -> None:
    device = SyntheticDevice(spec=SPEC, models=HIDDEN)
    other = GemmCase(m=65, n=4096, k=4096, impl="library")
    first = device.measure(CASE)
    device.measure(other)
    assert device.measure(CASE) == first
    assert replace(device, seed=1).measure(CASE) != first
    ratios = [device.measure(case).p50_s / device.true_s(case) for case in (CASE, other)]
    assert ratios[0] != ratios[1]
    assert first.p20_s < first.p50_s < first.p80_s


def test_without_noise_a_time_is_that_of_the_model() -> None:
    device = SyntheticDevice(spec=SPEC, models=HIDDEN, noise=0.0, outlier_share=0.0)
    assert HIDDEN.gemm is not None
    found = device.measure(CASE)
    assert found.p20_s == found.p50_s == found.p80_s == HIDDEN.gemm.time_s(64, 4096, 4096)


def test_noise_and_outliers_are_as_large_as_stated() -> None:
    device = SyntheticDevice(spec=SPEC, models=HIDDEN, noise=0.03)
    cases = [GemmCase(m=m, n=4096, k=4096, impl="library") for m in range(1, 2001)]
    ratios = np.array([device.measure(case).p50_s / device.true_s(case) for case in cases])
    is_slow = ratios > 1.2
    assert is_slow.mean() == pytest.approx(OUTLIER_SHARE, rel=0.4)
    assert ratios[is_slow].max() < OUTLIER_FACTORS[1] * 1.1
    assert np.std(np.log(ratios[~is_slow])) == pytest.approx(0.03, rel=0.1)
    assert np.median(ratios) == pytest.approx(1.0, abs=0.005)


def test_a_benchmark_of_an_unknown_kernel_fails_and_others_do_not() -> None:
    device = SyntheticDevice(spec=SPEC, models=replace(HIDDEN, gemm=None, provenance={}))
    with pytest.raises(UnmeasurableError, match="no constants of gemm"):
        device.measure(CASE)
    assert device.measure(StreamCase(op="read", data_set_bytes=2**24)).p50_s > 0
    mixed = MixedCase(
        num_heads=32,
        num_kv_heads=8,
        batch=4,
        context=512,
        chunk_tokens=64,
        prefix_tokens=0,
        form="separate",
    )
    assert device.measure(mixed).p50_s > 0


def test_what_needs_more_gpus_or_memory_fails() -> None:
    device = SyntheticDevice(spec=SPEC, models=HIDDEN)
    reduce = AllReduceCase(num_bytes=8192, num_gpus=4)
    peer = CopyCase(direction="p2p", num_bytes=4096, pinned=True)
    for case, needed in ((reduce, 4), (peer, 2)):
        with pytest.raises(UnmeasurableError, match=f"needs {needed} GPUs, this host has 1"):
            device.measure(case)
    assert replace(device, num_gpus=4).measure(reduce).p50_s > 0
    with pytest.raises(UnmeasurableError, match="bytes of memory"):
        device.measure(StreamCase(op="read", data_set_bytes=2**40))


def test_what_no_profile_models_is_slower_by_a_fixed_factor() -> None:
    device = SyntheticDevice(spec=SPEC, models=HIDDEN)
    own = GemmCase(m=64, n=4096, k=4096, impl="triton")
    assert device.true_s(own) == pytest.approx(1.3 * device.true_s(CASE))
    one, graph = (
        [device.true_s(LaunchCase(kind=kind, num_kernels=number)) for number in (1, 101)]
        for kind in ("launch", "graph_replay")
    )
    assert one[1] - one[0] == pytest.approx(100 * 2.2e-6)
    assert graph[1] - graph[0] == pytest.approx(100 * 1.1e-6)


def test_the_header_says_what_was_measured() -> None:
    info = SyntheticDevice(spec=SPEC, models=HIDDEN).info
    assert (info.name, info.num_sms, info.num_gpus) == ("synthetic a100_sxm_80gb", 108, 1)
    assert plan_of("auto", info).name == "a100"
    assert set(SyntheticDevice(spec=SPEC, models=HIDDEN).versions) == set(VERSION_KEYS)
    for name, plan in (("h200_sxm", "hopper"), ("h20", "hopper"), ("l40s", "generic")):
        spec = load_profile(name)
        assert plan_of("auto", SyntheticDevice(spec=spec, models=spec.kernels).info).name == plan


def test_time_passes_by_what_is_measured() -> None:
    device = SyntheticDevice(spec=SPEC, models=HIDDEN)
    timed = SimulatedTime(device)
    assert timed.clock() == 0.0
    timed.measure(CASE)
    assert timed.clock() == device.took_s(CASE) > 40 * device.true_s(CASE)
