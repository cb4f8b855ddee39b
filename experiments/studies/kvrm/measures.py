"""What the studies of executors measure."""

from experiments.studies.measured import Measure
from sim.units import GIB

OUTPUT = Measure(key="output_tokens_per_s", title="output", unit="tokens/s")
STEP_P99 = Measure(key="step_p99_s", title="step p99", unit="ms", factor=1e3)
STEP_P999 = Measure(key="step_p999_s", title="step p99.9", unit="ms", factor=1e3)
RESERVED = Measure(key="kv_reserved_mean_bytes", title="reserved KV", unit="GiB", factor=1 / GIB)
GROUPS = Measure(key="transfer_groups_mean", title="groups per step", unit="groups")
TTFT = Measure(key="ttft_mean_s", title="TTFT mean", unit="ms", factor=1e3)
TPOT = Measure(key="tpot_mean_s", title="TPOT mean", unit="ms", factor=1e3)
BATCH = Measure(key="mean_batch_size", title="mean batch", unit="requests")
REJECTED = Measure(key="num_rejected", title="refused", unit="requests")
STEP_P50 = Measure(key="step_p50_s", title="step median", unit="ms", factor=1e3)
MOST_GROUPS = Measure(key="transfer_groups_max", title="most groups in a step", unit="groups")
COMMITS = Measure(key="commit_time_ratio", title="commits", unit="% of busy time", factor=100)
TRANSFERS = Measure(
    key="gpu_transfer_ratio", title="waits for transfers", unit="% of GPU time", factor=100
)
FRAGMENTATION = Measure(key="fragmentation_mean_ratio", title="fragmentation", unit="%", factor=100)

PRINTED = (OUTPUT, STEP_P99, STEP_P999, RESERVED, GROUPS)
MEASURES = (
    *PRINTED,
    *(TTFT, TPOT, BATCH, REJECTED, STEP_P50),
    *(MOST_GROUPS, COMMITS, TRANSFERS, FRAGMENTATION),
)
