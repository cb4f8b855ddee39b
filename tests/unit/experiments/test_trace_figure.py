"""What the figure of a trace draws."""

import numpy as np

from experiments.trace_cli.figure import trace_figure
from traces.analysis.facts import facts_of
from traces.prefix_compress import compress
from traces.schema import TraceTable


def test_lengths_rise_from_no_request_to_all_even_where_all_are_equal() -> None:
    table = TraceTable(
        arrival_s=np.arange(4.0),
        prompt_tokens=np.full(4, 600),
        output_tokens=np.array([7, 5, 5, 9]),
    )
    workload = compress(table)
    figure = trace_figure([("x.csv", workload, facts_of(workload, 16))])
    prompt, output = figure.axes[1].lines
    assert np.asarray(prompt.get_xydata()).tolist() == [[600, 0], [600, 100]]
    assert np.asarray(output.get_xydata()).tolist() == [[5, 0], [5, 50], [7, 75], [9, 100]]
