"""`as_measured`: the host time that was fitted to measured servers, and nothing besides."""

from hwmodels.executors.executor import Executor, Fitting, Site


class AsMeasured(Executor):
    """Steps cost what the cost model says.

    The host time was fitted to whole steps of vLLM servers with CUDA graphs: what padding, graphs
    in pieces and replays cost in the mean is in it already (docs/executors.md).
    """

    def fit(self, site: Site) -> Fitting:
        """The cost model itself, and the memory as it is."""
        return Fitting(
            cost=site.cost, num_gpu_blocks=site.num_gpu_blocks, max_num_seqs=site.max_num_seqs
        )
