"""`feather_learned`: the table that Feather learns, and how long that takes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.studies.base import Bench, Study
from experiments.studies.feather.cell import DECIDES, Cell
from experiments.studies.feather.found import Found
from experiments.studies.feather.learning import LEARNING, SETTLED_S, of_state
from experiments.studies.feather.load import SCALES, Load
from experiments.studies.feather.notes import seeds_note
from experiments.studies.feather.rows import claim_row, measured_row
from experiments.studies.feather.tables import NUM_TAUGHT, teach
from experiments.studies.feather.variants import FEATHER, NO_PREFILL, Q_LEARNING, Variant
from experiments.studies.findings import Findings, Section
from policies.batching.feather.learner_state import read_learner_state

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARING, NOTHING = "5 groups", "no sharing"

LOADS: Mapping[str, Load] = {
    SHARING: Load(),
    NOTHING: Load(num_groups=0, prefix_tokens=480, is_warm=False),
}
KINDS: Mapping[Variant, str] = {FEATHER: "", NO_PREFILL: "no_prefill", Q_LEARNING: "q"}
"""Learners, and what the names of their figures end with."""

CONVERGES_S = 100.0
"""Source: POLICIES 1.3, a third party's note on the paper."""

CLAIMS_TITLE = "claims"


class FeatherLearned(Study):
    """Both learners and both rewards over a run of some minutes."""

    name = "feather_learned"
    question = "What does Feather learn, batch size by prefix loss, and after which time no more?"
    sizes: Mapping[str, str] = {
        size: f"5 groups and no sharing, 3 learners, Poisson, {NUM_TAUGHT:,} requests, "
        f"{scale.num_seeds} seeds: {len(LOADS) * len(KINDS) * scale.num_seeds} jobs ({time})"
        for (size, scale), time in zip(
            SCALES.items(), ("one minute on two free cores", "two minutes"), strict=True
        )
    }
    decides = (*DECIDES, "engine")
    num_requests = NUM_TAUGHT

    def __init__(self) -> None:
        self._paths: dict[tuple[str, Variant], list[Path]] = {}

    def run(self, bench: Bench) -> Findings:
        """Simulate and read the tables; nothing is fitted here."""
        num_seeds = SCALES[bench.size].num_seeds
        cells = {
            (title, variant): Cell(load=load, variant=variant, num_requests=self.num_requests)
            for title, load in LOADS.items()
            for variant in KINDS
        }
        tables = teach(bench, list(cells.values()), num_seeds, first=0)
        self._paths = dict(zip(cells, tables, strict=True))
        found = {
            key: Found(cell, tuple(_values(path, cell.load) for path in self._paths[key]))
            for key, cell in cells.items()
        }
        claims = [
            claim_row(
                *(f"{SHARING}: {variant.label}", SETTLED_S.title, (0.0, CONVERGES_S)),
                *(found[SHARING, variant].interval(SETTLED_S), "[note]"),
                unit=SETTLED_S.unit,
            )
            for variant in (FEATHER, Q_LEARNING)
        ]
        sections = [Section(title=CLAIMS_TITLE, rows=tuple(claims))]
        sections += [
            Section(
                title=f"what was learned, {title}",
                rows=tuple(
                    measured_row(found[title, variant], measure)
                    for measure in LEARNING
                    for variant in KINDS
                ),
            )
            for title in LOADS
        ]
        own = f"{self.num_requests:,} requests a job"
        return Findings(
            verdicts=(),
            sections=tuple(sections),
            notes=(seeds_note(bench.size, own), *_NOTES),
        )

    def pictures(self, findings: Findings) -> "Mapping[str, Figure]":
        """Learned share of ADD by state, and over time, of every load and learner."""
        from experiments.figures.learned import draw, tables

        return {
            _name(self.name, title, ending): draw(
                *tables(*(read_learner_state(path, "table") for path in self._paths[title, kind]))
            )
            for title in LOADS
            for kind, ending in KINDS.items()
        }


def _values(path: Path, load: Load) -> Mapping[str, float]:
    return of_state(read_learner_state(path, "table"), load.start_s)


def _name(study: str, title: str, ending: str) -> str:
    place = "" if title == SHARING else title.replace(" ", "_")
    return "_".join(filter(None, (study, place, ending)))


_NOTES: Sequence[str] = (
    "feather: ucb1 and reward step_time, as coded; `no prefill`: reward of steps without prefill "
    "(ours); Q: Q-learning, whose constants are ours; a decision is ADD where it is forced too",
    "regret (ours): what the learner expected at that time of the other action more than of the "
    "one it took; the true means are unknown. Of a learner that never stops exploring it grows all "
    "the time, and 95 % of it has come after 95 % of the run",
    "[note]: `converges in about 100 s`, read as at most that; the claim is widened by 25 %; it "
    "agrees if the whole interval lies within, disagrees if nothing of it does",
    "time counts from the beginning of the load, after the warm start; the unit of regret is that "
    "of the reward, requests per second of a step",
    "no sharing: prompts of 500 tokens. Figures: all seeds together by state, a line per seed over "
    "time; the tables themselves are in tables/ (docs/policies/feather.md)",
    "the GPU's kernels are transferred from other GPUs (docs/validation.md)",
)
