"""What a job with separate prefill and decode instances writes and says."""

from typing import Any

import pytest

from experiments.composing import compose_config
from experiments.job import JobRun, simulate_job
from experiments.results.handover import handover_line
from experiments.summary import deployment_lines

BASE = (
    "cluster=distserve",
    "trace=synthetic",
    "trace.num_requests=30",
    "trace.rate_per_s=50",
    "trace.prompt=20-900",
    "trace.output=1-40",
    "hardware.fidelity=roofline",
    "check=true",
)


def run(*overrides: str) -> JobRun:
    return simulate_job(*compose_config([*BASE, *overrides]))


def columns(job: JobRun) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = job.replications[0].requests.to_pydict()
    return found


def test_a_row_tells_where_and_when_a_request_went() -> None:
    table = columns(run())
    for row, output in enumerate(table["output_tokens"]):
        assert table["prefill_instance"][row] in (0, 1)
        if output == 1:
            assert table["instance"][row] == table["prefill_instance"][row]
            assert table["decode_instance"][row] is table["decode_start_s"][row] is None
            assert table["transfer_bytes"][row] is None
            continue
        assert table["instance"][row] == table["decode_instance"][row] in (2, 3)
        times = [
            table[name][row]
            for name in ("arrival_s", "first_token_s", "transfer_start_s", "transfer_end_s")
        ]
        times += [table["decode_start_s"][row], table["finish_s"][row]]
        assert times == sorted(times)
        blocks = -(-table["prompt_tokens"][row] // 16)
        assert table["transfer_bytes"][row] == blocks * 16 * 131_072
    assert 1 in table["output_tokens"]


def test_without_roles_there_are_no_such_columns_and_figures() -> None:
    job = run("cluster=colocated")
    assert "prefill_instance" not in columns(job)
    assert "handover_mean_s" not in job.metrics


def test_the_terminal_tells_roles_and_hand_over() -> None:
    job = run("cluster.num_mixed=1", "cluster.decode_num_gpu_blocks=900")
    lines = deployment_lines(job.deployment, 1)
    assert "on 5 x (a100_sxm_80gb)" in lines[0]
    assert "  2 prefill, 1 both, 2 decode with 900 KV blocks; KV moves at 240 GB/s" in lines[2]
    line = handover_line(job.metrics)
    assert line.startswith("hand-over: ") and ", mixed " in line


def test_the_terminal_tells_what_a_buffer_takes_off_the_kv_cache() -> None:
    line = deployment_lines(run("cluster=aligned_serve").deployment, 1)[2]
    assert "prefill with a buffer of " in line
    assert line.partition("with a buffer of ")[2].partition("B off its KV blocks, ")[2]


def test_given_decode_blocks_are_flagged_and_told_where_they_reject() -> None:
    job = run("cluster.decode_num_gpu_blocks=41")
    flags = {flag["flag"]: flag["text"] for flag in job.document["flags"]}
    assert "41 KV blocks of decode instances as given" in flags["decode_num_gpu_blocks_given"]
    assert flags["over_kv_capacity"].endswith("more than the 640 tokens of KV cache")


@pytest.mark.parametrize("link", ["nvlink", "pcie", "nic"])
def test_every_gpu_of_an_instance_brings_a_link(link: str) -> None:
    rates = []
    for num_gpus in (1, 2):
        spec = run(f"cluster.link={link}", f"cluster.tensor_parallel={num_gpus}").deployment.spec
        assert spec.disaggregation is not None
        rates.append(spec.disaggregation.peer_link.bytes_per_s)
    assert rates[1] == 2 * rates[0]
