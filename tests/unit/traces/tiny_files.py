"""The smallest good file of each format that other modules of tests read."""

import json
import tempfile
from pathlib import Path

import numpy as np

from sim.workload import Labels
from traces.schema import PromptRuns, TraceTable
from traces.writers.parquet import write_table

BURSTGPT_HEADER = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"

BURSTGPT = (
    BURSTGPT_HEADER + "5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,1087,230,1317,API log\n"
)

VLLM = json.dumps(
    {
        "max_concurrency": 2,
        "input_lens": [20, 30],
        "output_lens": [1, 2],
        "start_times": [10.5, 11.0],
        "errors": ["", ""],
    }
)

GUIDELLM = json.dumps(
    {
        "benchmarks": [
            {
                "config": {"strategy": {"streams": 2}},
                "requests": {
                    "successful": [
                        {
                            "request_start_time": 1.5,
                            "prompt_tokens": 3,
                            "output_tokens": 4,
                            "info": {"conversation_id": "c", "turn_index": 1},
                        }
                    ],
                    "errored": [],
                },
            }
        ]
    }
)

AIPERF = "".join(
    json.dumps(
        {
            "metadata": {
                "request_start_ns": 1_759_813_207_532_900_363 + i,
                "x_correlation_id": "a",
                "turn_index": i,
                "was_cancelled": False,
            },
            "metrics": {
                "input_sequence_length": {"value": 550, "unit": "tokens"},
                "output_sequence_length": {"value": 9, "unit": "tokens"},
            },
            "error": None,
        }
    )
    + "\n"
    for i in range(2)
)

CHATS = json.dumps(
    [
        {
            "conversations": [{"from": "human", "value": "hello"}, {"from": "gpt", "value": "yes"}]
            * 2
        },
        {"prompt_len": 3, "output_len": 4},
    ]
)

SERVEGEN = {
    "a-trace.csv": "0,0.5,1,Gamma,0.5,7\n600,0.1,2,Weibull,0.7,1\n",
    "a-dataset.json": json.dumps(
        {"0": {"input_tokens": "{9: 0.5, 8: 0.5}", "output_tokens": "{1: 1}"}}
    ),
}
"""Files of a directory."""


def own_parquet() -> bytes:
    """A table in our own layout."""
    table = TraceTable(
        arrival_s=np.arange(3.0),
        prompt_tokens=np.array([5, 9, 4]),
        output_tokens=np.array([4, 2, 3]),
        runs=PromptRuns(
            ids=np.array([2, 3, 4, 5]),
            offsets=np.array([0, 1, 3, 4]),
            tokens=np.array([5, 5, 4, 2]),
        ),
        output_run=np.array([3, -1, -1]),
        tenant=Labels(np.array([0, 0, -1]), ("x",)),
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "own.parquet"
        write_table(path, table)
        return path.read_bytes()


def tiny_trace(option: str, directory: Path) -> list[str]:
    """Overrides that choose a kind of trace with a file of it, which is written to `directory`."""
    texts = {
        "burstgpt": BURSTGPT,
        "csv": "arrival_s,prompt_tokens,output_tokens\n0,20,3\n0.5,30,4\n",
        "vllm_bench": VLLM,
        "guidellm": GUIDELLM,
        "aiperf": AIPERF,
        "sharegpt": CHATS,
    }
    if option == "servegen":
        for name, text in SERVEGEN.items():
            (directory / name).write_text(text)
        return [f"trace={option}", f"trace.path={directory}"]
    path = directory / option
    path.write_bytes(own_parquet() if option == "parquet" else texts[option].encode())
    return [f"trace={option}", f"trace.path={path}"]
