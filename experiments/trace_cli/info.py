"""`flocksim-trace info`: what is in a trace."""

from typing import Any

from experiments.cli import EXIT_OK
from experiments.results.json_text import json_text
from experiments.summary import make_console
from experiments.trace_cli.arguments import Arguments
from experiments.trace_cli.document import document_of
from experiments.trace_cli.drawing import check_figure, draw
from experiments.trace_cli.sources import file_source, transformed
from experiments.trace_cli.tables import facts_table, prefix_table, title_lines
from sim.workload import Workload
from traces.analysis.facts import TraceFacts, facts_of


def info(asked: Arguments) -> int:
    """Print, and draw if asked; returns the exit code."""
    if asked.figure is not None:
        check_figure(asked.figure)
    workload, facts, is_guessed = loaded(asked, 0)
    place = asked.places[0]
    if asked.is_json:
        print(json_text(document_of(facts, workload.provenance)), end="")
    else:
        _print(place, workload, facts, is_guessed)
    if asked.figure is not None:
        draw(asked.figure, [(place, workload, facts)])
        if not asked.is_json:
            print(f"figure: {asked.figure}")
    return EXIT_OK


def loaded(asked: Arguments, number: int) -> tuple[Workload, TraceFacts, bool]:
    """The workload of one of the files, its facts, and whether its format was guessed."""
    name = asked.formats[min(number, len(asked.formats) - 1)] if asked.formats else None
    source = file_source(asked.places[number], name, asked.settings)
    _, workload = transformed(source.load(asked.seed), source, asked.seed)
    return workload, facts_of(workload, asked.block_tokens or 16), source.is_guessed


def _print(place: str, workload: Workload, facts: TraceFacts, is_guessed: bool) -> None:
    console = make_console()
    for line in title_lines(place, workload.provenance, facts, is_guessed):
        console.print(line, no_wrap=True, overflow="ignore", crop=False)
    tables: list[Any] = [facts_table([facts], []), prefix_table(facts)]
    for table in tables:
        if table is not None:
            console.print(table)
