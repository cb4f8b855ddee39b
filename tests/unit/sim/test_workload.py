"""Columns of a workload and the rules that they must obey."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sim.prefix_tree import NO_NODE, PrefixTree
from sim.workload import Labels, Workload


def ints(*values: int) -> Any:
    return np.array(values, dtype=np.int64)


def good() -> Workload:
    """Three requests; the first two share node 0, the second continues to node 1."""
    workload = Workload(
        arrival_s=np.array([0.0, 1.0, 1.0]),
        prompt_tokens=ints(5, 8, 3),
        output_tokens=ints(1, 2, 3),
        path_offsets=ints(0, 1, 3, 3),
        path_nodes=ints(0, 0, 1),
        tree=PrefixTree.from_parents(ints(NO_NODE, 0, 1), ints(5, 3, 2)),
        output_node=ints(NO_NODE, 2, NO_NODE),
    )
    workload.validate()
    return workload


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt_tokens": ints(5, 8)}, "prompt_tokens: 2 rows, expected 3"),
        ({"output_tokens": ints(1, 2, 3, 4)}, "output_tokens: 4 rows, expected 3"),
        ({"path_offsets": ints(0, 1, 3)}, "path_offsets: 3 entries, expected 4"),
        ({"arrival_s": np.array([-1.0, 1, 1])}, "request 0: arrival_s must be finite and >= 0"),
        ({"arrival_s": np.array([0, np.nan, 1])}, "request 1: arrival_s must be finite and >= 0"),
        ({"arrival_s": np.array([0, 1, np.inf])}, "request 2: arrival_s must be finite"),
        ({"arrival_s": np.array([0, 2, 1.0])}, "request 2: arrival_s must not decrease"),
        ({"prompt_tokens": ints(5, 8, 0)}, "request 2: prompt_tokens must be >= 1"),
        ({"output_tokens": ints(1, 0, -1)}, "request 1: output_tokens must be >= 1"),
        ({"prompt_tokens": ints(4, 8, 3)}, "request 0: path is longer than the prompt"),
        (
            {"prompt_tokens": ints(5, 9, 3)},
            "request 1: a request with an output_node must not have private prompt tokens",
        ),
        (
            {"output_node": ints(NO_NODE, NO_NODE, 2)},
            "request 2: a request with an output_node must not have private prompt tokens",
        ),
    ],
)
def test_a_broken_rule_is_named_with_the_first_row_that_breaks_it(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        replace(good(), **change).validate()


def test_a_path_may_fill_the_whole_prompt() -> None:
    assert good().shared_tokens().tolist() == [5, 8, 0]
    assert [good().path(row) for row in range(3)] == [(0,), (0, 1), ()]


def test_a_workload_without_sharing_is_valid_and_has_no_paths() -> None:
    workload = Workload.without_sharing(np.array([0.0, 0.5]), ints(3, 4), ints(1, 2))
    workload.validate()
    assert workload.num_requests == 2
    assert workload.shared_tokens().tolist() == [0, 0]
    assert workload.path(1) == ()


def test_an_empty_workload_is_valid() -> None:
    workload = Workload.without_sharing(np.array([]), ints(), ints())
    workload.validate()
    assert workload.num_requests == 0


def test_labels_give_names_and_none_where_absent() -> None:
    labels = Labels(ints(1, -1, 0), ("gold", "free"))
    assert [labels.name_of(row) for row in range(3)] == ["free", None, "gold"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"session_id": ints(1, 2)}, "session_id: 2 rows, expected 3"),
        ({"tenant": Labels(ints(0), ("a",))}, "tenant: 1 rows, expected 3"),
        ({"path_offsets": ints(1, 1, 3, 3)}, "path_offsets must grow from 0 to 3"),
        ({"path_offsets": ints(0, 2, 1, 3)}, "path_offsets must grow from 0 to 3"),
        ({"path_nodes": ints(0, 0, 3)}, "path_nodes must be in 0 to 2"),
        ({"path_nodes": ints(0, -1, 1)}, "path_nodes must be in 0 to 2"),
        ({"path_nodes": ints(1, 0, 1)}, "request 0: path is no chain"),
        ({"path_nodes": ints(0, 0, 2)}, "request 1: path is no chain"),
        ({"output_node": ints(NO_NODE, 3, NO_NODE)}, "output_node must be in -1 to 2"),
        ({"output_node": ints(2, NO_NODE, NO_NODE)}, "request 0: output_node must follow"),
        (
            {"output_tokens": ints(1, 3, 3)},
            "request 1: output_node must hold exactly output_tokens",
        ),
    ],
)
def test_sharing_must_fit_the_tree(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        replace(good(), **change).validate()


@pytest.mark.parametrize(("parent", "tokens"), [((-1, 0), (3, 0)), ((-2,), (3,))])
def test_a_tree_has_no_empty_nodes_and_no_strange_parents(
    parent: tuple[int, ...], tokens: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match=r"node \d"):
        PrefixTree.from_parents(ints(*parent), ints(*tokens))
