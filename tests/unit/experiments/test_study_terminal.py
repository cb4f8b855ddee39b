"""Findings on the terminal: nothing is cut."""

import io

from rich.console import Console

from experiments.stats.intervals import Interval
from experiments.studies.findings import Findings, Row, Section, Verdict
from experiments.studies.terminal import print_findings

ROW = Row(
    setting="five groups behind prefixes of 5,000 tokens, all requests at once",
    quantity="output of the least served group until the first one is done",
    unit="tokens/s",
    claim=(1000.0, 2_000_000.0),
    simulated=Interval(1500.0, 1000.0, 2000.0, 10),
    role="[independent]",
    limit_ratio=0.25,
)
FINDINGS = Findings(
    verdicts=(Verdict(text="a promise that takes some words " * 4, value_ratio=0.1),),
    sections=(Section(title="claims", rows=(ROW,)),),
    notes=("a note of many words " * 10,),
)


def printed(width: int, *, is_terminal: bool) -> str:
    file = io.StringIO()
    console = Console(
        file=file,
        width=width,
        force_terminal=is_terminal,
        color_system=None,
        markup=False,
        highlight=False,
    )
    print_findings(FINDINGS, console)
    return file.getvalue()


def test_without_a_terminal_a_row_is_one_line_however_long() -> None:
    text = printed(110, is_terminal=False)
    (line,) = (line for line in text.splitlines() if ROW.setting in line)
    for cell in (f"{ROW.quantity} (tokens/s)", "1,000-2,000,000", "[independent]", "fails (25 %)"):
        assert cell in line
    assert FINDINGS.verdicts[0].text.strip() in text
    assert "…" not in text


def test_a_narrow_terminal_gets_long_texts_over_several_lines_and_every_number() -> None:
    text = printed(100, is_terminal=True)
    assert "…" not in text
    for word in (*ROW.setting.split(), *ROW.quantity.split()):
        assert word in text
    (line,) = (line for line in text.splitlines() if "1,000-2,000,000" in line)
    assert "[independent]" in line
    assert "fails (25 %)" in line
    assert max(map(len, text.splitlines()[:4])) <= 100
