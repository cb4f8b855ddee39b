"""`flocksim-trace synth`: generate a trace and store it."""

from experiments.cli import EXIT_OK
from experiments.trace_cli.arguments import Arguments
from experiments.trace_cli.sources import kind_source, transformed
from experiments.trace_cli.writing import check_place, target_of, write_trace, written_line


def synth(asked: Arguments) -> int:
    """Generate and write; returns the exit code."""
    out = asked.out
    assert out is not None
    target = target_of(out, asked.target)
    check_place(out)
    source = kind_source(asked.places[0], asked.settings)
    table, _ = transformed(source.load(asked.seed), source, asked.seed)
    write_trace(out, table, target, asked.is_lossy, asked.block_tokens)
    print(written_line(out, target, table))
    return EXIT_OK
