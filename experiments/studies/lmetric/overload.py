"""`lmetric_overload`: more than the cluster can serve, where other routers are reported to win."""

from collections.abc import Mapping, Sequence

from experiments.studies.findings import Row
from experiments.studies.lmetric.comparison import Comparison, Plan, Table
from experiments.studies.lmetric.measures import HITS, SERVED, TPOT, TTFT
from experiments.studies.lmetric.setting import MODELS, Setting
from experiments.studies.lmetric.sources import CONVERSATION, SYNTHETIC
from experiments.studies.lmetric.variants import (
    AIBRIX,
    DYNAMO,
    JSQ,
    LINEAR,
    LMETRIC,
    LPWL,
    PREBLE,
    Variant,
)

MEASURED: Mapping[Variant, tuple[float, float]] = {
    PREBLE: (19.06, 86.4),
    JSQ: (15.87, 119.3),
    LMETRIC: (15.46, 100.1),
    LINEAR: (14.59, 105.5),
    AIBRIX: (13.49, 128.2),
    DYNAMO: (12.26, 204.6),
}
"""Requests/s and TPOT, ms, of the authors' own sweep. Source: POLICIES 4.5 (8 x A800, TraceA
compressed 3.9 times, 40-58 % of the requests succeed; of which model is not known)."""

_MACHINE = {"hardware": "a100_sxm_80gb"}


class LmetricOverload(Comparison):
    """Loads above capacity."""

    name = "lmetric_overload"
    question = "Which router serves most when more arrives than the cluster can serve?"
    sizes: Mapping[str, str] = {
        "quick": "8 A100, conversation; Qwen2.5-7B at 1.5 and 2 times capacity, Qwen3-30B-A3B at "
        "2: 24 jobs (one minute on two free cores)",
        "full": "and synthetic, whole traces, at 1.1 to 3 times capacity: 160 jobs",
    }
    printed = (SERVED, TPOT, TTFT)
    plain = (SERVED, HITS)
    drawn = SERVED
    drawn_name = "Served in time"
    own_notes = (
        "claims: requests/s and TPOT of the authors' own sweep, as ratios to LMETRIC's; it ran on "
        "8 A800 with another trace, and requests that took too long failed: here none fails, and "
        "what counts is the share that is served before the last arrival",
        "the 30B model leaves an A100 KV for some eight of these requests and hardly a prefix: "
        "there hits decide nothing; the authors' chats are shorter",
        "its `dynamo-dec.` (18.37 requests/s, TPOT 76.6 ms) has no rule that is known",
    )

    def plan(self, size: str) -> Plan:
        """Loads above 1."""
        routers = tuple(one for one in MEASURED if one is not LMETRIC)
        if size == "full":
            chosen = [
                (source, model, load)
                for source in (CONVERSATION, SYNTHETIC)
                for model in MODELS
                for load in (1.1, 1.5, 2.0, 3.0)
            ]
        else:
            chosen = [
                (CONVERSATION, "7B", 1.5),
                (CONVERSATION, "7B", 2.0),
                (CONVERSATION, "30B-A3B", 2.0),
            ]
        return {
            Setting(
                source=source,
                load=load,
                model=model,
                num_instances=8,
                machine=_MACHINE,
                place="8 A100",
            ): (*routers, LPWL)
            for source, model, load in chosen
        }

    def claims(self, table: Table, plan: Plan) -> Sequence[Row]:
        """Of the authors' table, over LMETRIC."""
        rate_per_s, tpot_ms = MEASURED[LMETRIC]
        rows = []
        for setting in plan:
            for variant, (rate, tpot) in MEASURED.items():
                if variant is LMETRIC:
                    continue
                for measure, ratio in ((SERVED, rate / rate_per_s), (TPOT, tpot / tpot_ms)):
                    value = round(100 * (ratio - 1), 1)
                    rows.append(
                        table.claim(setting, (variant, LMETRIC), measure, (value, value), "[code]")
                    )
        return rows
