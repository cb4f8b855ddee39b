"""`lmetric_routers`: LMETRIC and the routers with documented rules, on four traces."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING

from experiments.studies.findings import Findings, Row
from experiments.studies.lmetric.comparison import Comparison, Plan, Table
from experiments.studies.lmetric.measures import TPOT, TPOT_P99, TTFT, TTFT_P90
from experiments.studies.lmetric.setting import MODELS, Setting
from experiments.studies.lmetric.sources import AGENT, CONVERSATION, SERVEGEN, SOURCES, SYNTHETIC
from experiments.studies.lmetric.variants import (
    JSQ,
    LINEAR,
    LLM_D_LOAD,
    LMETRIC,
    MAIN,
    OTHERS,
    PREBLE,
    SESSION,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOADS = (0.5, 0.7, 0.9, 1.1)

HALF, HIGH = (Setting(source=CONVERSATION, load=load) for load in (0.5, 0.9))
LARGE = Setting(source=CONVERSATION, load=0.5, model="30B-A3B")
AGENTS = Setting(source=AGENT, load=0.5)


class LmetricRouters(Comparison):
    """All routers."""

    name = "lmetric_routers"
    question = (
        "Which router has the lowest latencies, at half capacity, where LMETRIC's claims are made, "
        "and up to overload?"
    )
    sizes: Mapping[str, str] = {
        "quick": "a reduced grid: Qwen2.5-7B, conversation at loads 0.5 and 0.9 with all 22 "
        "routers, at 0.7 and 1.1 with 9; synthetic, agent and servegen, and Qwen3-30B-A3B on "
        "conversation, at 0.5 with 9; 2 runs of 3,000 to 5,000 requests (two minutes on two free "
        "cores)",
        "full": "4 traces, 2 models, loads 0.5, 0.7, 0.9 and 1.1, all routers: 5 runs of whole "
        "traces, 768 jobs",
    }
    own_notes = (
        "traces: Mooncake's conversations and its synthetic trace, agent sessions (LMCache; each "
        "call waits for the one before, the load is that of the starts of sessions in the long "
        "run), clients of a reasoning service (ServeGen: ten tenants, nothing shared); the paper's "
        "own traces are not at hand, so its claims are held against other ones",
        "claims against llm-d: the paper's baseline is `llm_d, load-aware`; against vLLM: jsq; of "
        "KV-aware against pure load balance: linear against jsq; the tuned weights of its linear, "
        "Dynamo and llm-d runs are not known",
        "`session_affinity` stands for a hybrid of somebody else's, of which affinity is a part; "
        "on traces without sessions it is least_requests",
        "predicted times (mooncake_ttft, polyserve, smetric) have the constants of an A30",
    )

    def plan(self, size: str) -> Plan:
        """The grid, reduced in the quick size."""
        if size == "full":
            return {
                Setting(source=source, load=load, model=model): (*MAIN, *OTHERS)
                for model in MODELS
                for source in SOURCES
                for load in LOADS
            }
        reduced = {Setting(source=CONVERSATION, load=load): MAIN for load in (0.7, 1.1)}
        others = {Setting(source=source, load=0.5): MAIN for source in (SYNTHETIC, SERVEGEN)}
        return {
            HALF: (*MAIN, *OTHERS),
            HIGH: (*MAIN, *OTHERS),
            **reduced,
            **others,
            AGENTS: (*MAIN, SESSION),
            LARGE: MAIN,
        }

    def claims(self, table: Table, plan: Plan) -> Sequence[Row]:
        """Of the paper's abstract and figures, and of others' runs."""
        of_chats = (
            (LMETRIC, JSQ, TTFT, (-92.0, -92.0), "[paper]"),
            (LMETRIC, JSQ, TPOT, (-24.0, -24.0), "[paper]"),
            (LINEAR, JSQ, TTFT, (-84.0, -84.0), "[note]"),
            (LINEAR, JSQ, TPOT, (-17.0, -17.0), "[note]"),
            (LMETRIC, LLM_D_LOAD, TTFT, (-5.0, 5.0), "[note]"),
            (LMETRIC, LLM_D_LOAD, TPOT_P99, (-13.0, -13.0), "[note]"),
            (LMETRIC, PREBLE, TTFT, (-56.0, -56.0), "[note]"),
            (LMETRIC, PREBLE, TPOT, (-8.0, -8.0), "[note]"),
        )
        of_agents = (
            (LMETRIC, LLM_D_LOAD, TTFT, (0.0, 10.0), "[note]"),
            (LMETRIC, LLM_D_LOAD, TPOT, (-30.0, -30.0), "[note]"),
            (LMETRIC, SESSION, TTFT_P90, (0.0, inf), "[independent]"),
        )
        return [
            table.claim(setting, (mine, other), measure, claim, source)
            for setting, claims in ((LARGE, of_chats), (HALF, of_chats), (AGENTS, of_agents))
            for mine, other, measure, claim, source in claims
        ]

    def pictures(self, findings: Findings) -> "Mapping[str, Figure]":
        """Ratios to LMETRIC at half capacity, a panel per trace."""
        from experiments.studies.lmetric.figure import ratios_figure

        titles = [Setting(source=source, load=0.5).title for source in SOURCES]
        label = f"{TTFT.title} / {LMETRIC.label}'s"
        return {self.name: ratios_figure(findings, TTFT, label, titles)}
