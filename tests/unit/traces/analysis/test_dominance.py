"""Sums above thresholds against a loop."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from traces.analysis.dominance import sums_above


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_sums_are_those_of_a_loop(data: st.DataObject) -> None:
    keys = data.draw(st.lists(st.integers(0, 12), max_size=40))
    weights = data.draw(st.lists(st.integers(0, 9), min_size=len(keys), max_size=len(keys)))
    queries = st.tuples(st.integers(0, len(keys)), st.integers(-1, 15))
    asked = data.draw(st.lists(queries, max_size=10))
    found = sums_above(
        np.array(keys, dtype=np.int64),
        np.array(weights, dtype=np.float64),
        np.array([stop for stop, _ in asked], dtype=np.int64),
        np.array([low for _, low in asked], dtype=np.int64),
    )
    expected = [
        sum(weight for key, weight in zip(keys[:stop], weights, strict=False) if key > low)
        for stop, low in asked
    ]
    assert found.tolist() == expected
