"""`make bench`: speed and memory against their targets, as ratios to SimPy's own speed.

Every run stands between two measurements of SimPy on this machine, and its rate is scaled to a
machine on which SimPy does 1.3 M timeouts per second. The median of several runs counts: the best
one favours moments in which SimPy was measured slow. As the strictest reading the best rate over
SimPy's best rate is printed too. The targets are for the compiled engine; `FLOCKSIM_COMPILED=0`
measures plain Python.
"""

import argparse
import statistics
import sys

from sim.compiled import form_in_use
from tests.bench import memory, peers, routing_rate
from tests.bench.reference_load import Case, requests_per_s
from tests.bench.simpy_rate import REFERENCE_PER_S, timeouts_per_s

TARGET_PER_S = 25_000.0
L2_TARGET_PER_S = 20_000.0
L2_GROUPS_TARGET_PER_S = 15_000.0
DISAGGREGATED_TARGET_PER_S = 10_000.0

CASES = (
    (Case("reference load, 10 thousand", 10_000), TARGET_PER_S),
    (Case("reference load, 100 thousand", 100_000), TARGET_PER_S),
    (Case("reference load, 1 million", 1_000_000), TARGET_PER_S),
    (Case("50 prefix groups, 100 thousand", 100_000, num_groups=50), None),
    (Case("asynchronous scheduling, 100 thousand", 100_000, is_async=True), None),
    (Case("calibrated kernels, 100 thousand", 100_000, fidelity="calibrated"), None),
    (Case("calibrated_l2, 100 thousand", 100_000, fidelity="calibrated_l2"), L2_TARGET_PER_S),
    (
        Case("calibrated_l2, 50 groups", 100_000, num_groups=50, fidelity="calibrated_l2"),
        L2_GROUPS_TARGET_PER_S,
    ),
    (
        Case("8 prefill and 8 decode, 100 thousand", 100_000, num_prefill=8),
        DISAGGREGATED_TARGET_PER_S,
    ),
    (Case("every step planned on its own, 10 thousand", 10_000, macro_steps=False), None),
)


def main() -> int:
    """Run and print; with `--strict`, return 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--repeat", type=int, default=5, help="runs per figure")
    parser.add_argument("--quick", action="store_true", help="10 thousand requests only")
    parser.add_argument("--strict", action="store_true", help="exit 1 if a target is missed")
    options = parser.parse_args()
    print(f"{form_in_use()}, one process, simulate() alone, everything recorded", flush=True)
    cases = [c for c in CASES if not options.quick or c[0].num_requests <= 10_000]
    is_met = [_measure(case, target, options.repeat) for case, target in cases]
    if not options.quick:
        is_met += routing_rate.measure_targets(options.repeat)
        is_met.append(_measure_memory())
    _print_peers()
    return 1 if options.strict and not all(is_met) else 0


def _measure(case: Case, target: float | None, repeat: int) -> bool:
    runs = [_scaled_run(case) for _ in range(repeat)]
    scaled = statistics.median(run[0] for run in runs)
    rate, simpy = max(run[1] for run in runs), max(run[2] for run in runs)
    verdict = _verdict(scaled >= target, f">= {target:,.0f}") if target else ""
    print(
        f"{case.name:44s} best {rate:7,.0f} requests/s, SimPy {simpy / 1e6:.2f} M/s; at 1.3 M/s:"
        f" median {scaled:7,.0f}, best over best {rate * REFERENCE_PER_S / simpy:7,.0f} {verdict}",
        flush=True,
    )
    return not target or scaled >= target


def _scaled_run(case: Case) -> tuple[float, float, float]:
    """(rate scaled to 1.3 M/s, rate, SimPy's rate just before and after)."""
    before = timeouts_per_s()
    rate = requests_per_s(case)
    simpy = (before + timeouts_per_s()) / 2
    return rate * REFERENCE_PER_S / simpy, rate, simpy


def _measure_memory() -> bool:
    found = memory.bytes_per_request()
    is_met = found <= memory.LIMIT_BYTES
    print(f"{'memory per request, trace aside':44s} {found:9,.0f} bytes", end=" ")
    print(_verdict(is_met, f"<= {memory.LIMIT_BYTES:,.0f}"))
    return is_met


def _verdict(is_met: bool, bound: str) -> str:
    return f"[{'ok' if is_met else 'MISSED'}, target {bound}]"


def _print_peers() -> None:
    factor = REFERENCE_PER_S / peers.SIMPY_PER_S
    print(f"\nOther simulators on the same load, measured at {peers.SIMPY_PER_S / 1e6:.2f} M/s,")
    print("requests/s scaled to 1.3 M/s (10 thousand / 100 thousand requests, 16 instances):")
    for name, few, many in peers.PEERS:
        at_many = f"{many * factor:9,.0f}" if many else "        -"
        print(f"  {name:48s} {few * factor:9,.0f} {at_many}")


if __name__ == "__main__":
    sys.exit(main())
