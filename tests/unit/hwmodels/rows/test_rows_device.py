"""A device profile from rows alone, for a GPU that no profile describes."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hwmodels.device import CONSTANT_UNITS, load_profile
from hwmodels.fitting.rows_device import check_same_gpu, device_of_rows, device_record
from hwmodels.fitting.rows_priors import priors_of
from hwmodels.microbench.case import Case
from hwmodels.microbench.cases import CopyCase, GemmCase, StreamCase
from sim.errors import ConfigError
from tests.unit.hwmodels.rows.measured import DATE, SPEC, written

GEMMS = [GemmCase(m=4096, n=8192, k=8192, impl="library")]
READS = [StreamCase(op="read", data_set_bytes=size * 2**20) for size in (16, 512, 2048)]
COPIES = [
    CopyCase(direction=direction, num_bytes=4**power, pinned=True)
    for direction in ("h2d", "d2h")
    for power in range(6, 15)
]


def test_peaks_are_the_fastest_rates_over_the_share_that_the_nearest_profile_reaches(
    tmp_path: Path,
) -> None:
    device = device_of_rows("mine", written(tmp_path / "rows.jsonl", [*GEMMS, *READS, *COPIES]))
    gemm, l2 = SPEC.kernels.gemm, SPEC.kernels.l2
    assert gemm is not None
    assert l2 is not None
    fastest = 2 * 4096 * 8192 * 8192 / float(gemm.time_s(4096, 8192, 8192))
    assert device.attainable_flops_per_s == pytest.approx(fastest, rel=1e-4)
    assert device.hbm_bytes_per_s == pytest.approx(SPEC.hbm_bytes_per_s, rel=1e-3)
    assert (device.name, device.title, device.date) == ("mine", "synthetic a100_sxm_80gb", DATE)
    assert device.num_sms == SPEC.num_sms
    assert device.l2_bytes == SPEC.l2_bytes
    assert device.hbm_capacity_bytes == SPEC.hbm_capacity_bytes
    assert device.pcie_bytes_per_s == pytest.approx(0.8 * SPEC.pcie_bytes_per_s, rel=1e-3)
    assert device.nvlink_bytes_per_s == SPEC.nvlink_bytes_per_s
    assert device.sources["nvlink_bytes_per_s"] == (
        "assumed: that of a100_sxm_80gb; not measured with one GPU."
    )
    assert device.sources["step_overhead_s"] == "Taken from a100_sxm_80gb, not measured here."


def test_copies_between_gpus_give_the_rate_of_their_link(tmp_path: Path) -> None:
    peers = [CopyCase(direction="p2p", num_bytes=4**power, pinned=True) for power in range(6, 15)]
    file = written(tmp_path / "rows.jsonl", [*GEMMS, *READS, *peers], num_gpus=2)
    device = device_of_rows("mine", file)
    assert device.nvlink_bytes_per_s == pytest.approx(0.8 * SPEC.nvlink_bytes_per_s, rel=1e-3)
    assert device.sources["nvlink_bytes_per_s"].startswith("Large copies between two GPUs")


def test_such_a_profile_is_read_back(tmp_path: Path) -> None:
    device = device_of_rows("mine", written(tmp_path / "rows.jsonl", [*GEMMS, *READS]))
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(device_record(device)))
    again = load_profile(path)
    assert again == device
    assert again.sources == device.sources
    assert device.pcie_bytes_per_s == SPEC.pcie_bytes_per_s, "no copies: the nearest profile's"


def test_a_packaged_profile_is_written_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "again.json"
    path.write_text(json.dumps(device_record(SPEC)))
    again = load_profile(path)
    assert replace(again, kernels_at=SPEC.kernels_at) == SPEC
    assert set(again.sources) <= set(CONSTANT_UNITS)


@pytest.mark.parametrize(
    ("cases", "lacking"),
    [
        (READS, "no rows of matrix products"),
        (GEMMS, "no rows of reads far larger than the L2 cache"),
        ([*GEMMS, READS[0]], "no rows of reads far larger than the L2 cache"),
    ],
)
def test_rows_that_give_no_peaks_are_told(tmp_path: Path, cases: list[Case], lacking: str) -> None:
    file = written(tmp_path / "rows.jsonl", cases)
    with pytest.raises(ConfigError, match=lacking):
        device_of_rows("mine", file)


def test_rows_of_another_gpu_are_refused(tmp_path: Path) -> None:
    file = written(tmp_path / "rows.jsonl", READS)
    check_same_gpu(SPEC, file)
    with pytest.raises(ConfigError, match="with 108 processors, profile h200_sxm has 132"):
        check_same_gpu(load_profile("h200_sxm"), file)


def test_priors_are_a_devices_own_kernels_or_those_of_the_nearest_profile(tmp_path: Path) -> None:
    assert priors_of(SPEC, DATE).models == SPEC.kernels
    device = device_of_rows("mine", written(tmp_path / "rows.jsonl", [*GEMMS, *READS]))
    found = priors_of(device, DATE)
    assert found.origin == "a100_sxm_80gb"
    assert found.models.device == "mine"
    assert all(record.is_extrapolated for record in found.models.provenance.values())
