"""Memory that a simulation needs per request, measured in processes of their own."""

import resource
import subprocess
import sys
from pathlib import Path

from sim.simulation import simulate
from tests.bench.reference_load import Case, reference_cluster, reference_workload

LIMIT_BYTES = 1024.0


def bytes_per_request(few: int = 100_000, many: int = 1_000_000) -> float:
    """(peak growth at `many` - peak growth at `few`) / (many - few), the trace itself aside."""
    grown = [_growth_bytes(n) for n in (few, many)]
    return (grown[1] - grown[0]) / (many - few)


def _growth_bytes(num_requests: int) -> int:
    command = [sys.executable, "-m", "tests.bench.memory", str(num_requests)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def main() -> None:
    """Print by how many bytes the peak exceeds the memory held before `simulate()`."""
    case = Case("memory", int(sys.argv[1]))
    workload, spec = reference_workload(case), reference_cluster(case)
    before = _resident_bytes()
    result = simulate(workload, spec)
    assert result.num_finished == case.num_requests
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before)


if __name__ == "__main__":
    main()
