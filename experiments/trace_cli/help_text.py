"""What `flocksim-trace --help` prints. Composes nothing, so that it is quick."""

from experiments.help_text import options_of

_TITLE = "flocksim-trace: look at, check, convert, generate and compare traces of LLM requests.\n"

_USAGES = {
    "info": (
        "info FILE       what is in it: arrivals, lengths, sharing, reuse against cache",
        "flocksim-trace info FILE [key=value]... [--format NAME] [--figure FILE] [--json]",
    ),
    "validate": (
        "validate FILE   every fault with its line; exit code 1 if there is one",
        "flocksim-trace validate FILE [key=value]... [--format NAME] [--all] [--json]",
    ),
    "convert": (
        "convert FILE... --out FILE       into parquet, or another format",
        "flocksim-trace convert FILE... --out FILE [key=value]... [--format NAME] [--to FORMAT]\n"
        "                       [--merge] [--lossy] [--block-tokens N] [--seed N]",
    ),
    "synth": (
        "synth KIND --out FILE            generate and store a trace",
        "flocksim-trace synth KIND --out FILE [key=value]... [--to FORMAT] [--lossy] [--seed N]",
    ),
    "compare": (
        "compare FILE FILE                two traces side by side",
        "flocksim-trace compare FILE FILE [key=value]... [--format NAME] [--figure FILE] [--json]",
    ),
}
"""Per command: its line in the list of all, and its own usage."""

_ANY = """\
The format is told from the content where --format does not name it. After FILE any option of the
format and any transform may follow as key=value, spelled as in flocksim without `trace.`.
"""

_ANY_OF_FORMAT = """\
The format is told from the content where --format does not name it. After FILE any option of the
format may follow as key=value, spelled as in flocksim without `trace.`. No transforms: the file is
read as it is.
"""

_ANY_OF_KIND = """\
After KIND any option of the kind and any transform may follow as key=value, spelled as in flocksim
without `trace.`; flocksim trace=KIND --cfg job shows all options with their values.
"""

_OPTIONS = (
    (
        "info validate convert compare",
        "--format NAME",
        ("the format of all files, or once per file",),
    ),
    (
        "convert synth",
        "--out FILE",
        (
            "where to write (convert, synth); the suffix chooses the format:",
            ".parquet (everything, read by trace=parquet), .jsonl (Mooncake), .csv (Azure)",
        ),
    ),
    ("convert synth", "--to FORMAT", ("parquet, mooncake or azure, whatever the suffix",)),
    (
        "convert synth",
        "--lossy",
        (
            "write Mooncake or Azure even if they cannot say all; without it the command",
            "refuses and lists what would be lost",
        ),
    ),
    ("convert", "--merge", ("make one trace of several files (convert)",)),
    (
        "info convert synth compare",
        "--block-tokens N",
        (
            "tokens per KV block of reuse (info, compare; 16), or per hash of a Mooncake",
            "file that is written (512, or as in the trace)",
        ),
    ),
    ("info compare", "--figure FILE", ("draw into a .png, .svg or .pdf (info, compare)",)),
    (
        "info validate compare",
        "--json",
        ("print JSON instead of tables (info, validate, compare)",),
    ),
    ("validate", "--all", ("list every fault instead of 20 of each kind (validate)",)),
    ("info convert synth compare", "--seed N", ("of what is drawn at random (0)",)),
)
"""Commands that take it, what it is called, lines about it."""

_TRANSFORMS = """
Transforms, in the order in which they apply:
  window_s=60, window_s=[30,90]    keep a window of time
  sample=0.1                       keep a random share; sessions as a whole
  limit=1000                       keep the first rows
  scale_prompt=2, scale_output=2   longer or shorter, with the same sharing
  max_output_tokens=N, max_prompt_tokens=N
  strip_prefixes=true              nothing shared
  copies=4, copy_offsets=even      several copies at once (offsets are random otherwise)
  poissonise=true                  Poisson arrivals of the same mean rate
  rate_scale=2, shift_s=10         faster, later
  anonymise=true                   numbers in place of ids and names
  replay_concurrency=32, replay_think_time_s=1        a fixed number of users, in a closed loop
"""

_MIX = """
Tenants that share a cluster are the parts of the kind mix: chat (sessions) and batch
(prefix_groups), each with all options of its kind, and tenant, slo_class, priority and start_s:
  parts.chat.trace.rate_per_s=8    an option of a part
  trace@parts.batch.trace=synthetic                   another kind for a part, or a file's format
  +trace@parts.code.trace=mooncake parts.code.trace.path=FILE +parts.code.tenant=code   a new part
  '~parts.batch'                   one part less
"""

EXAMPLES = (
    "flocksim-trace info conversation_trace.jsonl --figure conversation.png",
    "flocksim-trace info trace.csv --format burstgpt skip_failed=true --json",
    "flocksim-trace validate qwen_traceA.jsonl.gz",
    "flocksim-trace convert conversation_trace.jsonl --out hour.parquet window_s=3600 copies=4",
    "flocksim-trace convert chat.jsonl code.csv --merge --out both.parquet",
    "flocksim-trace synth sessions num_requests=100000 rate_per_s=20 --seed 1 --out chat.parquet",
    "flocksim-trace synth mix parts.chat.trace.rate_per_s=8 parts.batch.tenant=b --out m.parquet",
    "flocksim-trace compare conversation_trace.jsonl chat.parquet --figure both.svg",
)

_TAIL = """
A stored trace is simulated with: flocksim trace=parquet trace.path=chat.parquet
Exit codes: 0 done, 1 a trace with faults, 2 a mistake in the input, 130 interrupted.
More: docs/traces.md
"""


def help_text(command: str | None = None) -> str:
    """The text about everything, or about one command.

    Args:
        command: one of the commands; None for all of them.
    """
    whole = _head(command) + _kinds(command) + _options(command)
    if command != "validate":
        whole += _TRANSFORMS
    if command in (None, "synth"):
        whole += _MIX
    examples = [line for line in EXAMPLES if command in (None, line.split()[1])]
    shown = "".join(f"  {line}\n" for line in examples)
    return f"{whole}\nExamples:\n{shown}{_TAIL}".rstrip()


def _head(command: str | None) -> str:
    if command is not None:
        line, usage = _USAGES[command]
        what = line.partition("  ")[2].strip()
        about = f"flocksim-trace {command}: {what}\n\nusage: {usage}\n\n"
        any_of = {"synth": _ANY_OF_KIND, "validate": _ANY_OF_FORMAT}
        return f"{about}{any_of.get(command, _ANY)}\n"
    lines = [f"flocksim-trace {line}" for line, _ in _USAGES.values()]
    usage = "usage: " + "\n       ".join(lines)
    return f"{_TITLE}\n{usage}\n\n{_ANY}\n"


def _kinds(command: str | None) -> str:
    title, names = "Formats and kinds", options_of("trace")
    if command is not None:
        from experiments.trace_cli.guess import file_formats

        formats = file_formats()
        is_synth = command == "synth"
        title = "Kinds" if is_synth else "Formats"
        names = [name for name in names if (name in formats) != is_synth]
    lines = [" "]
    for option in names:
        if len(lines[-1]) + len(option) + 1 > 100:
            lines.append(" ")
        lines[-1] += f" {option}"
    return f"{title}:\n" + "\n".join(lines) + "\n"


def _options(command: str | None) -> str:
    text = "\nOptions:\n"
    for commands, name, lines in _OPTIONS:
        if command is None or command in commands.split():
            first, *more = lines
            text += f"  {name:<21}{first}\n" + "".join(f"{' ' * 23}{line}\n" for line in more)
    return text
