"""What `flocksim --help` prints. Composes nothing, so that it is quick."""

from importlib.resources import files

from experiments.composing import GROUPS

_HEAD = """\
flocksim: simulate a cluster of LLM inference engines under a trace of requests.

usage: flocksim [GROUP=OPTION | KEY=VALUE]...      one run
       flocksim -m [GROUP=OPTION,OPTION...]...     a sweep: one run per combination

A run prints a summary and writes result.json (config, metrics, flags), run.json (host, wall
times), requests.parquet and distributions.parquet to outputs/DATE/TIME, or where hydra.run.dir
says. Without arguments it serves embedded conversations with Llama-3-8B on four A100s.
A sweep runs on all cores and writes a directory per job and sweep.csv to hydra.sweep.dir; started
again there, it runs only what is missing. hydra.launcher.n_jobs=N: so many jobs at a time.

Groups and their options:
"""

_KEYS = """
Keys most often changed (flocksim --cfg job shows all of them with their values):
  trace.path=FILE          the trace; trace.limit, trace.window_s, trace.rate_scale cut or stretch
  cluster.num_instances    replicas; cluster.tensor_parallel: GPUs of each
  cluster=disaggregated    prefill and decode apart: cluster.num_prefill, cluster.num_decode,
                           cluster.link, cluster.transfer, routing@cluster.decode_routing=NAME
  cluster=aligned_serve    and decode batches of similar KV length, from a pool on the host:
                           cluster.host_pool_bytes, cluster.feeder.k_min, cluster.feeder.batch_ratio
  model.max_context_tokens=N   a longer context than the model was made for, OPT's 2,048 say
  engine.max_num_seqs, engine.max_num_batched_tokens     seats and token budget of a step
  engine.num_gpu_blocks    KV blocks as your engine logged them; engine.gpu_memory_utilization
  engine.prefix_caching, engine.async_scheduling, engine.max_model_len
  routing.view_delay_s, routing.publish_period_s         how old a router's view is
  routing.tie_shift=1      a placebo: the same router, ties fall to other instances
  frontend.enabled=true    API server, prompt hashing and detokeniser on the path of every latency
  scheduler.enabled=true   CPU time of the batch policy, added to its steps
  kv_tiers.host_bytes=N    host memory behind the prefix caches, of so many bytes;
                           kv_tiers.remote_bytes: a store behind that (docs/kv_tiers.md)
  slo.ttft_s, slo.tpot_s   what counts as goodput
  trace.load=0.7           the rate, as a share of the flood throughput of this cluster under
                           least_requests; trace.flood=true: all requests at once
  hardware.fidelity=roofline   price steps by peaks alone instead of fitted kernels and L2 hits
  kernel=flash_cascade     another attention kernel; kernel.family, kernel.mixed_batch
  executor=cuda_graph      how steps are launched, what they pad and reserve (docs/executors.md)
  replications=N           N runs with other draws, the same for every policy: means over them
  trace.warmup_s, trace.warmup_requests   requests that count in no figure
  output.steps=true (steps.parquet), output.timeline=true (timeline.json.gz for Perfetto),
  output.decisions=true (decisions.parquet: every choice of the router, with its scores)
  seed, check=true (verify the simulator's invariants), hydra.run.dir=DIR, hydra.sweep.dir=DIR
"""

EXAMPLES = (
    "flocksim",
    "flocksim trace=mooncake trace.path=FILE.jsonl model=llama3_1_8b cluster.num_instances=16",
    "flocksim trace=azure trace.path=AzureLLMInferenceTrace_conv.csv trace.limit=5000",
    "flocksim trace=synthetic trace.rate_per_s=20 trace.prompt=1024 trace.output=1-256",
    "flocksim trace=mix trace.parts.chat.trace.rate_per_s=8 trace.parts.batch.tenant=nightly",
    "flocksim cluster=splitwise model=llama2_70b cluster.tensor_parallel=4 hardware=h100_sxm",
    "flocksim model=hf model.path=my_model/config.json engine.num_gpu_blocks=20000",
    "flocksim trace.rate_scale=2 routing=power_of_two routing.view_delay_s=0.5",
    "flocksim admission=token_bucket admission.rate_tokens_per_s=10000 slo.ttft_s=1",
    "flocksim -m routing=random,jsq replications=5 trace.load=0.6,0.8 hydra.sweep.dir=sweep",
)

_TAIL = """
A policy of your own is a class and a YAML file in DIR/routing (or another group) with
`_target_: package.Class`: flocksim hydra.searchpath=[file://DIR] routing=NAME
If its code raises, one line says where; with FLOCKSIM_TRACEBACK=1 in the environment its
traceback comes first.
Exit codes: 0 done, 1 a defect of the simulator, 2 a mistake in the input, 130 interrupted.
See also: flocksim-compare DIR (tables and figures of runs and sweeps), flocksim-capacity (the
highest rate that meets an SLO), flocksim-trace (look at, check, convert and make traces),
flocksim-calibrate (fit kernel models, show their errors), flocksim-study (measurements and claims
beside simulated values; flocksim experiment=NAME is the same); each has --help.
More: flocksim --hydra-help
"""


def options_of(group: str) -> list[str]:
    """Names of the packaged options of a config group, sorted."""
    folder = files("experiments.conf") / group
    names = [entry.name for entry in folder.iterdir()]
    return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))


def help_text() -> str:
    """The whole text."""
    groups = "".join(_group_lines(group) for group in GROUPS)
    examples = "".join(f"  {line}\n" for line in EXAMPLES)
    return f"{_HEAD}{groups}{_KEYS}\nExamples:\n{examples}{_TAIL}".rstrip()


def _group_lines(group: str, width: int = 100) -> str:
    lines = [f"  {group:<10}"]
    for option in options_of(group):
        if len(lines[-1]) + len(option) + 1 > width:
            lines.append(" " * 12)
        lines[-1] += f" {option}"
    return "".join(line + "\n" for line in lines)
