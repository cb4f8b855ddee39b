"""What the tiers did in a run, and the figures of it."""

from dataclasses import dataclass
from math import inf, nextafter
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from sim.tiers.tiers import Tiers

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

PERCENTILES = (50, 90, 99)


@dataclass(frozen=True, slots=True, kw_only=True)
class TierRecords:
    """Columns over requests, and sums over instances and hosts.

    Attributes:
        host_hit_tokens: prompt tokens found in the host at first admission. Shape (n,).
        remote_hit_tokens: the same for the store, behind those. Shape (n,).
        load_wait_s: time that a request has waited for its loads, seconds; NaN without. Shape (n,).
        num_loads: loads that were begun.
        host_loaded_bytes: KV loaded from hosts, that from the store not counted.
        remote_loaded_bytes: KV loaded from the store, through a host.
        host_written_bytes: KV written to hosts.
        remote_written_bytes: KV written to the store.
        dropped_bytes: KV that was not written, because too much was waiting to be.
        host_bytes: KV that hosts hold at the end.
        remote_bytes: KV that the store holds at the end.
    """

    host_hit_tokens: IntArray
    remote_hit_tokens: IntArray
    load_wait_s: FloatArray
    num_loads: int
    host_loaded_bytes: int
    remote_loaded_bytes: int
    host_written_bytes: int
    remote_written_bytes: int
    dropped_bytes: int
    host_bytes: int
    remote_bytes: int


def tier_records(tiers: "Tiers", num_requests: int, end_s: float) -> TierRecords:
    """What the tiers did up to `end_s`; the instances have stopped."""
    host_hits = np.zeros(num_requests, dtype=np.int64)
    remote_hits = np.zeros(num_requests, dtype=np.int64)
    waits_s = np.full(num_requests, np.nan)
    for instance in tiers.instances:
        log = instance.load_log
        for row, tokens in log.host_hit_tokens.items():
            host_hits[row] = tokens
        for row, tokens in log.remote_hit_tokens.items():
            remote_hits[row] = tokens
        for row, wait_s in log.wait_s.items():
            waits_s[row] = wait_s
    for domain in tiers.domains:
        domain.bring_to(nextafter(end_s, inf))
    logs = [instance.load_log for instance in tiers.instances]
    to_host = [link for domain in tiers.domains for link in domain.to_host.values()]
    to_remote = [link for domain in tiers.domains for link in domain.to_remote.values()]
    hosts = [host for domain in tiers.domains for host in domain.hosts.values()]
    stores = [domain.remote for domain in tiers.domains if domain.remote is not None]
    size = tiers.spec.block_bytes
    return TierRecords(
        host_hit_tokens=host_hits,
        remote_hit_tokens=remote_hits,
        load_wait_s=waits_s,
        num_loads=sum(log.num_loads for log in logs),
        host_loaded_bytes=size * sum(log.host_blocks for log in logs),
        remote_loaded_bytes=size * sum(log.remote_blocks for log in logs),
        host_written_bytes=size * sum(link.num_blocks for link in to_host),
        remote_written_bytes=size * sum(link.num_blocks for link in to_remote),
        dropped_bytes=size * sum(link.num_dropped for link in (*to_host, *to_remote)),
        host_bytes=size * sum(host.num_resident for host in hosts),
        remote_bytes=size * sum(store.num_resident for store in stores),
    )


def tier_metrics(
    records: TierRecords,
    prompt_tokens: IntArray,
    gpu_hit_tokens: IntArray,
    is_counted: BoolArray,
) -> dict[str, float | int | None]:
    """Hits by tier and waits of the requests that count, traffic of the whole run.

    Hits are those at first admissions, per prompt token, as `prefix_hit_ratio` is for the GPU.

    Args:
        records: what the tiers did.
        prompt_tokens: prompt of each request. Shape (n,).
        gpu_hit_tokens: found on the GPU at first admission, -1 before. Shape (n,).
        is_counted: requests that count. Shape (n,).
    """
    is_admitted = is_counted & (gpu_hit_tokens >= 0)
    prompts = int(prompt_tokens[is_admitted].sum())
    hits = [
        int(column[is_admitted].sum())
        for column in (records.host_hit_tokens, records.remote_hit_tokens, gpu_hit_tokens)
    ]
    metrics: dict[str, float | int | None] = {
        "prefix_hit_host_ratio": hits[0] / prompts if prompts else None,
        "prefix_hit_remote_ratio": hits[1] / prompts if prompts else None,
        "prefix_hit_total_ratio": sum(hits) / prompts if prompts else None,
    }
    waits_s = records.load_wait_s[is_counted & ~np.isnan(records.load_wait_s)]
    found: list[float | None] = [None] * (1 + len(PERCENTILES))
    if len(waits_s):
        found = [float(waits_s.mean()), *np.percentile(waits_s, PERCENTILES).tolist()]
    keys = ["load_wait_mean_s", *(f"load_wait_p{p}_s" for p in PERCENTILES)]
    metrics |= dict(zip(keys, found, strict=True))
    return metrics | {
        "num_kv_loads": records.num_loads,
        "kv_host_loaded_bytes": records.host_loaded_bytes,
        "kv_remote_loaded_bytes": records.remote_loaded_bytes,
        "kv_host_written_bytes": records.host_written_bytes,
        "kv_remote_written_bytes": records.remote_written_bytes,
        "kv_dropped_bytes": records.dropped_bytes,
        "kv_host_resident_bytes": records.host_bytes,
        "kv_remote_resident_bytes": records.remote_bytes,
    }
