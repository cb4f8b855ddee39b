"""What a live request tells a policy about itself."""

import numpy as np

from sim.arrivals import requests_of
from sim.prefix_tree import NO_NODE
from sim.request import WAITING, Request
from sim.workload import Labels, Workload


def test_optional_columns_are_read_by_row() -> None:
    workload = Workload.without_sharing(
        np.zeros(2),
        np.array([3, 4]),
        np.array([5, 6]),
        session_id=np.array([7, -1]),
        turn=np.array([2, 0]),
        parent_id=np.array([-1, 0]),
        tenant=Labels(np.array([0, -1]), ("acme",)),
        slo_class=Labels(np.array([-1, 0]), ("batch",)),
        priority=np.array([1, -3]),
    )
    first, second = requests_of(workload)
    assert (first.session_id, first.turn, first.parent_id) == (7, 2, -1)
    assert (first.tenant, first.slo_class, first.priority) == ("acme", None, 1)
    assert (second.session_id, second.turn, second.parent_id) == (-1, 0, 0)
    assert (second.tenant, second.slo_class, second.priority) == (None, "batch", -3)


def test_absent_columns_have_neutral_values() -> None:
    request = Request(None, 4, 1.5, 10, 3)
    assert (request.session_id, request.turn, request.parent_id) == (-1, 0, -1)
    assert (request.tenant, request.slo_class, request.priority) == (None, None, 0)
    assert (request.phase, request.cached_tokens, request.admitted_s) == (WAITING, -1, -1.0)
    assert repr(request) == "Request(4, 10+3 tokens)"


def test_kv_lies_in_the_path_and_in_the_output_node() -> None:
    assert Request(None, 0, 0.0, 10, 3, (2, 5), 0, 7).kv_path == (2, 5, 7)
    assert Request(None, 0, 0.0, 10, 3, (2, 5), 0, NO_NODE).kv_path == (2, 5)


def test_a_prefill_covers_what_was_generated_before() -> None:
    request = Request(None, 0, 0.0, 10, 30)
    request.generated_tokens = 4
    assert request.total_tokens == 14
