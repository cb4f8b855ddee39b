"""What the studies of LMETRIC offer to a cluster: recorded traces, or stand-ins where they lack.

The recordings are public files that do not come with flocksim. A stand-in is generated, has about
the lengths and the sharing of its recording, and is named as one in every table.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

DATA_VARIABLE = "FLOCKSIM_DATA"
"""Names the folder of the public traces; without it `../shared/data` beside the packages."""

STAND_IN = "stand-in"

Sections = Mapping[str, Mapping[str, str]]
"""Sections `trace` by size of the study."""


def data_directory() -> Path:
    """Where the public traces are, if they are anywhere."""
    named = os.environ.get(DATA_VARIABLE)
    return Path(named) if named else Path(__file__).resolve().parents[4] / "shared" / "data"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Source:
    """A trace whose arrivals are scaled as a whole; equal to itself alone.

    Sections are those of `trace` in a job, by size of the study.

    Attributes:
        label: in tables.
        file: its file or folder below that of the public traces; empty: it is generated anyway.
        recorded: its section, without the path.
        recorded_flood: likewise, of the job that measures the capacity.
        generated: its section where there is no file.
        generated_flood: likewise; empty: FLOOD_FACTOR times the requests.
    """

    label: str
    file: str = ""
    recorded: Sections = field(default_factory=dict)
    recorded_flood: Sections = field(default_factory=dict)
    generated: Sections
    generated_flood: Sections = field(default_factory=dict)

    @property
    def path(self) -> Path | None:
        """Its file where it is; None where there is none."""
        path = data_directory() / self.file
        return path if self.file and path.exists() else None

    @property
    def is_stand_in(self) -> bool:
        """Whether something generated takes the place of a recording."""
        return bool(self.file) and self.path is None

    @property
    def title(self) -> str:
        """The label, with what it is if it is no recording."""
        return f"{self.label} ({STAND_IN})" if self.is_stand_in else self.label

    @property
    def note(self) -> str | None:
        """One line if the recording lacks."""
        if not self.is_stand_in:
            return None
        return (
            f"{self.label}: {data_directory() / self.file} is not there; generated requests stand "
            f"in for it ({DATA_VARIABLE}=DIR names the folder of the public traces)"
        )

    @property
    def is_scaled(self) -> bool:
        """Whether a load is a factor of its times; else `rate` needs no rate of the trace."""
        return True

    def overrides(self, size: str) -> dict[str, str]:
        """The section `trace` of a job, without its rate."""
        return self._with_path(self.recorded.get(size, {}), self.generated[size])

    def flood(self, size: str) -> dict[str, str]:
        """The section `trace` of the job that measures the capacity."""
        generated = self.generated_flood.get(size) or _more_requests(self.generated[size])
        return self._with_path(self.recorded_flood.get(size, {}), generated)

    def rate(self, size: str, calls_per_s: float, trace_rate_per_s: float) -> dict[str, str]:
        """What makes so many requests per second come.

        Args:
            size: of the study.
            calls_per_s: the wanted rate.
            trace_rate_per_s: that of the trace as it is, where `is_scaled`.
        """
        return {"trace.rate_scale": f"{calls_per_s / trace_rate_per_s:.6g}"}

    def _with_path(
        self, recorded: Mapping[str, str], generated: Mapping[str, str]
    ) -> dict[str, str]:
        if self.path is None:
            return dict(generated)
        return {**recorded, "trace.path": f"'{self.path.resolve()}'"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AgentSource(Source):
    """Agent sessions: several readings of one file, each with starts of sessions of its own.

    A call waits for the one before it.

    Attributes:
        readings: how many, by size.
    """

    readings: Mapping[str, int]

    @property
    def is_scaled(self) -> bool:
        """A load is a rate of sessions."""
        return False

    def overrides(self, size: str) -> dict[str, str]:
        """A mix of the readings; nothing is shared between two of them."""
        return dict(self.generated[size]) if self.path is None else self._mix(self.readings[size])

    def flood(self, size: str) -> dict[str, str]:
        """More readings."""
        if self.path is None:
            return _more_requests(self.generated[size])
        return self._mix(FLOOD_FACTOR * self.readings[size])

    def rate(self, size: str, calls_per_s: float, trace_rate_per_s: float) -> dict[str, str]:
        """Starts of sessions, spread over the readings."""
        if self.path is None:
            return {"trace.rate_per_s": f"{calls_per_s:.6g}"}
        starts_per_s = calls_per_s / _CALLS_PER_SESSION / self.readings[size]
        return {
            f"trace.parts.{name}.trace.session_rate_per_s": f"{starts_per_s:.6g}"
            for name in _names(self.readings[size])
        }

    def _mix(self, readings: int) -> dict[str, str]:
        assert self.path is not None
        quoted = f"'{self.path.resolve()}'"
        sections = {"trace": "mix", "~trace.parts.chat": "", "~trace.parts.batch": ""}
        for name in _names(readings):
            sections[f"+trace@trace.parts.{name}.trace"] = "agent"
            sections[f"trace.parts.{name}.trace.path"] = quoted
        return sections


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClientSource(Source):
    """Clients whose requests are drawn at a rate, in their own time.

    Attributes:
        num_requests: about how many, by size.
    """

    num_requests: Mapping[str, int]

    @property
    def is_scaled(self) -> bool:
        """They are drawn at any rate."""
        return False

    def flood(self, size: str) -> dict[str, str]:
        """More requests, at the recorded rates."""
        if self.path is None:
            return _more_requests(self.generated[size])
        seconds = FLOOD_FACTOR * self.num_requests[size] / _CLIENTS_PER_S
        return {**self.overrides(size), "trace.duration_s": f"{seconds:.6g}"}

    def rate(self, size: str, calls_per_s: float, trace_rate_per_s: float) -> dict[str, str]:
        """The rate, and a time in which so many requests come."""
        rate = {"trace.rate_per_s": f"{calls_per_s:.6g}"}
        if self.path is None:
            return rate
        return {**rate, "trace.duration_s": f"{self.num_requests[size] / calls_per_s:.6g}"}


def _names(readings: int) -> list[str]:
    return [f"reading_{k}" for k in range(readings)]


def _more_requests(section: Mapping[str, str]) -> dict[str, str]:
    number = FLOOD_FACTOR * int(section["trace.num_requests"])
    return {**section, "trace.num_requests": f"{number}"}


FLOOD_FACTOR = 4
"""Requests of a flood over those of a job (ours). With fewer most have a seat at once, and what is
measured is how those drain that were prefilled before the steady part began."""


_CALLS_PER_SESSION = 1566 / 69
"""Source: the public file (1,566 calls of 69 sessions)."""

_CLIENTS_PER_S = 13.2
"""Mean rate of the public clients (about)."""

_WHOLE: Sections = {"quick": {"trace": "mooncake"}, "full": {"trace": "mooncake"}}

_CHAT = {
    "trace": "sessions",
    "trace.rate_per_s": "5",
    "trace.turns": "1-8",
    "trace.user.mean": "3000",
    "trace.user.cv": "1.5",
    "trace.user.high": "20000",
    "trace.output.mean": "340",
    "trace.output.cv": "0.7",
    "trace.system_prompt_tokens": "512",
    "trace.think_time_s": "30",
}

CONVERSATION = Source(
    label="conversation",
    file="traces/mooncake/conversation_trace.jsonl",
    recorded={
        "quick": {"trace": "mooncake", "trace.limit": "3000"},
        "full": {"trace": "mooncake"},
    },
    recorded_flood=_WHOLE,
    generated={
        "quick": {**_CHAT, "trace.num_requests": "3000"},
        "full": {**_CHAT, "trace.num_requests": "12000"},
    },
)
"""Mooncake's conversations: long prompts, of which a third can be reused. Their public times are in
steps of 3 s."""

_TASKS = {
    **_CHAT,
    "trace.turns": "5-25",
    "trace.user.mean": "800",
    "trace.output.mean": "150",
    "trace.system_prompt_tokens": "4000",
    "trace.num_system_prompts": "50",
}

SYNTHETIC = Source(
    label="synthetic",
    file="traces/mooncake/synthetic_trace.jsonl",
    recorded={
        "quick": {"trace": "mooncake", "trace.limit": "3000"},
        "full": {"trace": "mooncake"},
    },
    recorded_flood={
        size: {"trace": "mooncake", "trace.copies": f"{FLOOD_FACTOR}"} for size in _WHOLE
    },
    generated={
        "quick": {**_TASKS, "trace.num_requests": "3000"},
        "full": {**_TASKS, "trace.num_requests": "4000"},
    },
)
"""Mooncake's synthetic trace: longer prompts still, of which two thirds can be reused."""

_AGENTS = {
    "trace": "sessions",
    "trace.closed_loop": "true",
    "trace.steady": "false",
    "trace.turns": "5-40",
    "trace.user.mean": "100",
    "trace.output.mean": "330",
    "trace.system_prompt_tokens": "1000",
    "trace.num_system_prompts": "3",
    "trace.think_time_s": "2.7",
}

AGENT = AgentSource(
    label="agent",
    file="traces/lmcache_agent/agent_calls_blk16approx.jsonl",
    generated={
        "quick": {**_AGENTS, "trace.num_requests": "6000"},
        "full": {**_AGENTS, "trace.num_requests": "18000"},
    },
    readings={"quick": 3, "full": 12},
)
"""Agent sessions (LMCache): deep chains, nine tenths of the prompts can be reused."""

_TENANTS = {
    "trace": "synthetic",
    "trace.rate_per_s": "13",
    "~trace.arrivals": "",
    "+trace.arrivals": "{kind: gamma, cv: 1.2}",
    "trace.prompt.mean": "900",
    "trace.prompt.cv": "3",
    "trace.prompt.high": "36000",
    "trace.output.mean": "1500",
    "trace.output.cv": "1.5",
    "trace.output.high": "25000",
}

SERVEGEN = ClientSource(
    label="servegen",
    file="traces/servegen/reason/deepseek-r1",
    recorded={"quick": {"trace": "servegen"}, "full": {"trace": "servegen"}},
    generated={
        "quick": {**_TENANTS, "trace.num_requests": "4000"},
        "full": {**_TENANTS, "trace.num_requests": "16000"},
    },
    num_requests={"quick": 4000, "full": 16_000},
)
"""Fitted clients of a reasoning service (ServeGen, Alibaba): several tenants, nothing shared."""

SOURCES = (CONVERSATION, SYNTHETIC, AGENT, SERVEGEN)
