"""Memory that a simulation needs per request, measured in processes of their own."""

import resource
import subprocess
import sys
import threading
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


class PeakSampler(threading.Thread):
    """Watches the resident memory of this process (its all-time peak may lie before)."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak_bytes = 0
        self._is_done = threading.Event()

    def run(self) -> None:
        """Sample until stopped."""
        while not self._is_done.wait(0.02):
            self.peak_bytes = max(self.peak_bytes, _resident_bytes())

    def stop(self) -> int:
        """Peak so far, bytes."""
        self._is_done.set()
        self.join()
        return max(self.peak_bytes, _resident_bytes())


def main() -> None:
    """Print by how many bytes the peak exceeds the memory held before `simulate()`."""
    case = Case("memory", int(sys.argv[1]))
    workload, spec = reference_workload(case), reference_cluster(case)
    before = _resident_bytes()
    sampler = PeakSampler()
    sampler.start()
    result = simulate(workload, spec)
    peak = sampler.stop()
    assert result.num_finished == case.num_requests
    print(peak - before)


if __name__ == "__main__":
    main()
