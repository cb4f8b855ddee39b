"""Cases made ready to run on a device."""

from collections.abc import Callable

from hwmodels.microbench.attention_cases import (
    CascadeCase,
    DecodeAttentionCase,
    MixedCase,
    PackedCase,
    PrefillCase,
    SharedPrefixCase,
)
from hwmodels.microbench.case import Case
from hwmodels.microbench.machine_cases import (
    AllReduceCase,
    CopyCase,
    GemmCase,
    LaunchCase,
    StreamCase,
)
from hwmodels.microbench.problems.all_reduce import AllReduceProblem
from hwmodels.microbench.problems.copy import CopyProblem
from hwmodels.microbench.problems.decode import DecodeProblem
from hwmodels.microbench.problems.gemm import GemmProblem
from hwmodels.microbench.problems.launch import LaunchProblem
from hwmodels.microbench.problems.prefill import MixedProblem, PrefillProblem
from hwmodels.microbench.problems.problem import Problem
from hwmodels.microbench.problems.stream import StreamProblem
from hwmodels.microbench.problems.trees import CascadeProblem, PackedProblem
from hwmodels.microbench.problems.workspace import Workspace

__all__ = ["Problem", "Workspace", "problem_of"]

_PROBLEMS: dict[type[Case], Callable[..., Problem]] = {
    StreamCase: StreamProblem,
    GemmCase: GemmProblem,
    DecodeAttentionCase: DecodeProblem,
    SharedPrefixCase: DecodeProblem,
    CascadeCase: CascadeProblem,
    PackedCase: PackedProblem,
    PrefillCase: PrefillProblem,
    MixedCase: MixedProblem,
    LaunchCase: LaunchProblem,
    CopyCase: CopyProblem,
    AllReduceCase: AllReduceProblem,
}


def problem_of(workspace: Workspace, case: Case) -> Problem:
    """Set a case up.

    Raises:
        UnmeasurableError: the device cannot run it.
    """
    return _PROBLEMS[type(case)](workspace, case)
