"""Whatever describes lengths or arrivals is refused in one line or gives valid columns."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.errors import ConfigError
from sim.rng import stream
from traces.options import MAX_TOKENS
from traces.synthetic.arrivals import arrival_process
from traces.synthetic.lengths import length_distribution

NUMBERS = st.one_of(
    st.integers(-2, 12),
    st.integers(),
    st.floats(),
    st.floats(0, 3),
    st.sampled_from([1e-9, 1e-3, 1e9, 10**7, 10**400, 5e-324]),
)
SCALARS = st.one_of(NUMBERS, st.none(), st.booleans(), st.text(max_size=3))

LENGTH_KINDS = {
    "fixed": ["value"],
    "uniform": ["low", "high"],
    "lognormal": ["mean", "cv", "low", "high", "median", "sigma"],
    "gamma": ["mean", "cv", "low", "high"],
    "exponential": ["mean", "low", "high"],
    "zipf": ["low", "high", "exponent"],
    "empirical": ["values", "weights", "quantiles"],
    "mixture": ["parts"],
}

ARRIVAL_KINDS = {
    "poisson": [],
    "gamma": ["cv"],
    "weibull": ["cv"],
    "on_off": ["on_s", "off_s", "off_ratio", "fixed"],
    "diurnal": ["period_s", "amplitude", "peak_to_mean", "peak_s"],
    "spike": ["at_s", "duration_s", "factor"],
    "constant": [],
    "all_at_once": [],
    "closed_loop": ["concurrency", "think_time_s", "think"],
}


def specs(kinds: dict[str, list[str]], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Mappings of a kind with some of its keys, now and then with others."""

    def of_kind(kind: str) -> st.SearchStrategy[Any]:
        full = st.fixed_dictionaries(dict.fromkeys(kinds[kind], values))
        known = st.dictionaries(st.sampled_from([*kinds[kind], "low"]), values, max_size=3)
        other = st.dictionaries(st.one_of(st.text(max_size=3), st.integers()), values, max_size=1)
        return st.one_of(known, full, known, other).map(lambda keys: {"kind": kind, **keys})

    return st.sampled_from(sorted(kinds)).flatmap(of_kind)


PARTS = st.lists(
    st.one_of(
        st.fixed_dictionaries({"weight": NUMBERS, "kind": st.just("fixed"), "value": NUMBERS}),
        SCALARS,
        st.lists(NUMBERS, max_size=3),
    ),
    max_size=4,
)


@settings(max_examples=300, deadline=None)
@given(spec=st.one_of(SCALARS, specs(LENGTH_KINDS, st.one_of(SCALARS, NUMBERS, PARTS))))
def test_a_length_is_refused_in_one_line_or_has_tokens_in_range(spec: Any) -> None:
    try:
        tokens = length_distribution("trace.prompt", spec).sample(stream(1, "test"), 20)
    except ConfigError as error:
        assert str(error).startswith("trace.prompt")
        assert "\n" not in str(error)
        return
    assert tokens.shape == (20,)
    assert tokens.dtype == np.int64
    assert tokens.min() >= 1
    assert tokens.max() <= MAX_TOKENS


@settings(max_examples=300, deadline=None)
@given(
    spec=st.one_of(SCALARS, specs(ARRIVAL_KINDS, st.one_of(SCALARS, NUMBERS, NUMBERS))),
    rate_per_s=st.one_of(st.sampled_from([1e-9, 0.5, 1e9]), SCALARS),
)
def test_arrivals_are_refused_in_one_line_or_have_ordered_times(spec: Any, rate_per_s: Any) -> None:
    try:
        arrivals = arrival_process("trace.arrivals", spec, rate_per_s).sample(1, 20)
    except ConfigError as error:
        assert str(error).startswith(("trace.arrivals", "trace.rate_per_s"))
        assert "\n" not in str(error)
        return
    assert arrivals.arrival_s.shape == (20,)
    assert arrivals.arrival_s[0] >= 0
    assert np.isfinite(arrivals.arrival_s).all()
    assert (np.diff(arrivals.arrival_s) >= 0).all()
    if arrivals.concurrency is not None:
        assert arrivals.concurrency >= 1
        assert arrivals.delay_s is not None
        assert (arrivals.delay_s >= 0).all()
