"""Speed of the SGLang engine on the reference load: `python -m tests.bench.sglang_rate`.

The same requests, GPU and KV bytes as `tests.bench.reference_load`, prefill batches of 8,192
tokens. Rates are per second of CPU time, which another process on the machine disturbs less.
"""

import argparse
import time
from dataclasses import replace

from sim.cluster_spec import ClusterSpec
from sim.sglang import Sglang
from sim.simulation import simulate
from tests.bench.reference_load import MAX_SEQS, Case, reference_cluster, reference_workload

CHUNK_TOKENS = 8192


def sglang_reference(case: Case) -> ClusterSpec:
    """The reference cluster under the rules of SGLang."""
    spec = reference_cluster(case)
    kv_tokens = (spec.num_gpu_blocks - 1) * spec.block_tokens
    rules = Sglang(MAX_SEQS, CHUNK_TOKENS)
    return replace(spec, rules=rules, block_tokens=1, num_gpu_blocks=kv_tokens + 1)


def main() -> None:
    """Print the best rate of each engine."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.sglang_rate", description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=0, help="groups that share a prefix")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    case = Case("sglang", options.requests, num_groups=options.groups)
    workload = reference_workload(case)
    for name, spec in (("vllm_v1", reference_cluster(case)), ("sglang", sglang_reference(case))):
        rates = []
        for _ in range(options.repeat):
            start = time.process_time()
            result = simulate(workload, spec)
            rates.append(case.num_requests / (time.process_time() - start))
            assert result.num_finished == case.num_requests
        print(f"{name:8s} best of {options.repeat}: {max(rates):7,.0f} requests per CPU second")


if __name__ == "__main__":
    main()
