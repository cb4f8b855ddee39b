"""`flocksim-trace convert`: read, merge, transform, write."""

from experiments.cli import EXIT_OK
from experiments.trace_cli.arguments import Arguments
from experiments.trace_cli.sources import Source, file_source, transformed
from experiments.trace_cli.writing import check_place, target_of, write_trace, written_line
from sim.errors import ConfigError
from traces.merge import merge
from traces.schema import TraceTable


def convert(asked: Arguments) -> int:
    """Write the trace of one or more files; returns the exit code."""
    out = asked.out
    assert out is not None
    target = target_of(out, asked.target)
    check_place(out, asked.places)
    sources = _sources(asked)
    table, _ = transformed(_loaded(sources, asked.seed), sources[0], asked.seed)
    write_trace(out, table, target, asked.is_lossy, asked.block_tokens)
    print(written_line(out, target, table))
    return EXIT_OK


def _sources(asked: Arguments) -> list[Source]:
    places = asked.places
    if len(places) > 1 and not asked.is_merging:
        raise ConfigError(
            f"{len(places)} files: add --merge to make one trace of them, or convert one at a time"
        )
    if len(places) == 1 and asked.is_merging:
        raise ConfigError("--merge has no effect on a single file; leave it out")
    names = asked.formats if len(asked.formats) == len(places) else asked.formats * len(places)
    formats = names or (None,) * len(places)
    pairs = zip(places, formats, strict=True)
    return [file_source(place, name, asked.settings) for place, name in pairs]


def _loaded(sources: list[Source], seed: int) -> TraceTable:
    tables = [source.load(seed) for source in sources]
    return tables[0] if len(tables) == 1 else merge(tables)
