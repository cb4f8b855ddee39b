"""`flocksim-trace compare`: two traces side by side."""

from pathlib import Path

from experiments.cli import EXIT_OK
from experiments.results.json_text import json_text
from experiments.summary import make_console
from experiments.trace_cli.arguments import Arguments
from experiments.trace_cli.document import document_of
from experiments.trace_cli.drawing import check_figure, draw
from experiments.trace_cli.info import loaded
from experiments.trace_cli.tables import facts_table


def compare(asked: Arguments) -> int:
    """Print both traces, and draw them if asked; returns the exit code."""
    if asked.figure is not None:
        check_figure(asked.figure)
    both = [loaded(asked, number)[:2] for number in range(2)]
    names = labels_of(asked.places)
    if asked.is_json:
        documents = [document_of(facts, workload.provenance) for workload, facts in both]
        print(json_text({"traces": dict(zip(names, documents, strict=True))}), end="")
    else:
        make_console().print(facts_table([facts for _, facts in both], names))
    if asked.figure is not None:
        draw(asked.figure, [(name, *pair) for name, pair in zip(names, both, strict=True)])
        if not asked.is_json:
            print(f"figure: {asked.figure}")
    return EXIT_OK


def labels_of(places: tuple[str, ...]) -> list[str]:
    """File names, or whole paths where two names are equal; twice the same file is numbered."""
    names = [Path(place).name for place in places]
    if len(set(names)) < len(names):
        names = list(places)
    if len(set(names)) < len(names):
        names = [f"{name} ({k})" for k, name in enumerate(names, 1)]
    return names
