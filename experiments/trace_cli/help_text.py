"""What `flocksim-trace --help` prints. Composes nothing, so that it is quick."""

from experiments.help_text import options_of

_HEAD = """\
flocksim-trace: look at, check, convert, generate and compare traces of LLM requests.

usage: flocksim-trace info FILE       what is in it: arrivals, lengths, sharing, reuse against cache
       flocksim-trace validate FILE   every fault with its line; exit code 1 if there is one
       flocksim-trace convert FILE... --out FILE       into parquet, or another format
       flocksim-trace synth KIND --out FILE            generate and store a trace
       flocksim-trace compare FILE FILE                two traces side by side

The format is told from the content where --format does not name it. After FILE any option of the
format and any transform may follow as key=value, spelled as in flocksim without `trace.`.

Formats and kinds:
"""

_OPTIONS = """
Options:
  --format NAME        the format of all files, or once per file
  --out FILE           where to write (convert, synth); the suffix chooses the format:
                       .parquet (everything, read by trace=parquet), .jsonl (Mooncake), .csv (Azure)
  --to FORMAT          parquet, mooncake or azure, whatever the suffix
  --lossy              write Mooncake or Azure even if they cannot say all; without it the command
                       refuses and lists what would be lost
  --merge              make one trace of several files (convert)
  --block-tokens N     tokens per KV block of reuse (info, compare; 16), or per hash of a Mooncake
                       file that is written (512, or as in the trace)
  --figure FILE        draw into a .png, .svg or .pdf (info, compare)
  --json               print JSON instead of tables (info, validate, compare)
  --all                list every fault instead of 20 of each kind (validate)
  --seed N             of what is drawn at random (0)

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

EXAMPLES = (
    "flocksim-trace info conversation_trace.jsonl --figure conversation.png",
    "flocksim-trace info trace.csv --format burstgpt skip_failed=true --json",
    "flocksim-trace validate qwen_traceA.jsonl.gz",
    "flocksim-trace convert conversation_trace.jsonl --out hour.parquet window_s=3600 copies=4",
    "flocksim-trace convert chat.jsonl code.csv --merge --out both.parquet",
    "flocksim-trace synth sessions num_requests=100000 rate_per_s=20 --seed 1 --out chat.parquet",
    "flocksim-trace compare conversation_trace.jsonl chat.parquet --figure both.svg",
)

_TAIL = """
A stored trace is simulated with: flocksim trace=parquet trace.path=chat.parquet
Exit codes: 0 done, 1 a trace with faults, 2 a mistake in the input, 130 interrupted.
More: docs/traces.md
"""


def help_text() -> str:
    """The whole text."""
    lines = [" "]
    for option in options_of("trace"):
        if len(lines[-1]) + len(option) + 1 > 100:
            lines.append(" ")
        lines[-1] += f" {option}"
    kinds = "\n".join(lines) + "\n"
    examples = "".join(f"  {line}\n" for line in EXAMPLES)
    return f"{_HEAD}{kinds}{_OPTIONS}\nExamples:\n{examples}{_TAIL}".rstrip()
