"""Independent requests and prefix groups: moments and sharing against theory, streams apart."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from sim.errors import ConfigError
from traces.build import build_workload
from traces.schema import TraceTable
from traces.synthetic.independent import SyntheticTrace
from traces.synthetic.popularity import zipf_probabilities
from traces.synthetic.prefix_groups import PrefixGroupsTrace

UNIFORM = {"kind": "uniform", "low": 16, "high": 48}
SHORT = {"kind": "uniform", "low": 1, "high": 9}


def independent(**changes: Any) -> SyntheticTrace:
    options = {"num_requests": 20_000, "rate_per_s": 4.0, "prompt": UNIFORM, "output": SHORT}
    return SyntheticTrace(**{**options, **changes})


def groups(**changes: Any) -> PrefixGroupsTrace:
    options = {
        "num_requests": 20_000,
        "rate_per_s": 4.0,
        "num_groups": 10,
        "prefix_tokens": 100,
        "suffix": UNIFORM,
        "output": SHORT,
        "skew": 1.0,
    }
    return PrefixGroupsTrace(**{**options, **changes})


def columns(table: TraceTable) -> dict[str, list[float]]:
    return {
        name: getattr(table, name).tolist()
        for name in ("arrival_s", "prompt_tokens", "output_tokens")
    }


def test_gaps_are_exponential_with_the_rate() -> None:
    arrival_s = independent().load(1).arrival_s
    gaps_s = np.diff(arrival_s, prepend=0.0)
    assert gaps_s.mean() == pytest.approx(1 / 4, rel=0.03)
    assert stats.kstest(gaps_s, "expon", args=(0, 1 / 4)).pvalue > 1e-3
    assert abs(np.corrcoef(gaps_s[1:], gaps_s[:-1])[0, 1]) < 0.03


def test_prompt_and_output_lengths_are_independent_of_each_other() -> None:
    table = independent().load(1)
    assert abs(np.corrcoef(table.prompt_tokens, table.output_tokens)[0, 1]) < 0.03
    assert (int(table.prompt_tokens.min()), int(table.prompt_tokens.max())) == (16, 48)
    assert (int(table.output_tokens.min()), int(table.output_tokens.max())) == (1, 9)


@pytest.mark.parametrize("make", [independent, groups])
def test_the_same_seed_gives_the_same_arrays_and_another_seed_others(make: Any) -> None:
    assert columns(make().load(1)) == columns(make().load(1))
    one, other = columns(make().load(1)), columns(make().load(2))
    assert all(one[name] != other[name] for name in one)


@pytest.mark.parametrize("make", [independent, groups])
def test_the_rate_stretches_time_and_changes_no_length(make: Any) -> None:
    slow, fast = make().load(1), make(rate_per_s=8.0).load(1)
    assert slow.arrival_s == pytest.approx(2 * fast.arrival_s, rel=1e-12)
    assert slow.prompt_tokens.tolist() == fast.prompt_tokens.tolist()
    assert slow.output_tokens.tolist() == fast.output_tokens.tolist()


def test_an_output_distribution_changes_neither_prompts_nor_arrivals() -> None:
    one, other = independent().load(1), independent(output=UNIFORM).load(1)
    assert one.prompt_tokens.tolist() == other.prompt_tokens.tolist()
    assert one.arrival_s.tolist() == other.arrival_s.tolist()
    assert one.output_tokens.tolist() != other.output_tokens.tolist()


def test_a_group_is_one_node_and_every_member_shares_exactly_the_prefix() -> None:
    workload = build_workload(groups(), seed=1)
    assert workload.tree.num_tokens.tolist() == [100] * 10
    assert workload.tree.parent.tolist() == [-1] * 10
    assert set(workload.shared_tokens().tolist()) == {100}
    assert workload.prompt_tokens.min() == 116
    assert workload.prompt_tokens.max() == 148
    workload.validate()


@pytest.mark.parametrize("skew", [0.0, 1.0, 2.5])
def test_group_sizes_follow_the_zipf_law(skew: float) -> None:
    table = groups(skew=skew).load(1)
    assert table.runs is not None
    sizes = np.bincount(table.runs.ids, minlength=10)
    expected = zipf_probabilities(10, skew)
    assert expected[0] / expected[9] == pytest.approx(10**skew)
    assert expected.sum() == pytest.approx(1)
    assert stats.chisquare(sizes, expected * 20_000).pvalue > 1e-3


def test_a_group_of_one_request_shares_nothing() -> None:
    workload = build_workload(groups(num_requests=2, num_groups=10_000_000, skew=0.0), seed=1)
    assert workload.tree.num_nodes == 0
    assert workload.shared_tokens().tolist() == [0, 0]


def test_provenance_tells_seed_and_options() -> None:
    provenance = groups().load(9).provenance
    assert provenance["format"] == "prefix_groups"
    assert provenance["sha256"] is None
    assert provenance["seed"] == 9
    assert provenance["num_rows"] == 20_000
    assert provenance["options"]["suffix"] == UNIFORM
    assert provenance["options"]["skew"] == 1.0
    assert independent().load(9).provenance["format"] == "synthetic"


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (independent, {"num_requests": 0}, "trace.num_requests=0: must be an integer from 1 to"),
        (independent, {"num_requests": 10**9}, "trace.num_requests=1000000000: must be an integer"),
        (
            independent,
            {"rate_per_s": 0},
            "trace.rate_per_s=0: must be a finite number >= 1e-09 and <= 1e+09",
        ),
        (independent, {"rate_per_s": -1}, "trace.rate_per_s=-1: must be a finite number >= 1e-09"),
        (
            independent,
            {"rate_per_s": "4"},
            "trace.rate_per_s='4': must be a finite number >= 1e-09",
        ),
        (independent, {"rate_per_s": float("nan")}, "trace.rate_per_s=nan: must be a finite"),
        (independent, {"prompt": {"kind": "x"}}, "trace.prompt.kind='x': must be one of"),
        (independent, {"output": {"kind": "x"}}, "trace.output.kind='x': must be one of"),
        (independent, {"rate_per_s": 1e-320}, "trace.rate_per_s=1e-320: must be a finite number"),
        (independent, {"num_requests": 10**7 + 1}, "trace.num_requests=10000001: must be an int"),
        (groups, {"skew": 1e308}, "trace.skew=1e+308: must be a finite number >= 0 and <= 100"),
        (groups, {"num_requests": 1.5}, "trace.num_requests=1.5: must be an integer from 1 to"),
        (groups, {"rate_per_s": float("inf")}, "trace.rate_per_s=inf: must be a finite number"),
        (groups, {"num_groups": 0}, "trace.num_groups=0: must be an integer from 1 to"),
        (groups, {"prefix_tokens": 0}, "trace.prefix_tokens=0: must be an integer from 1 to"),
        (groups, {"suffix": None}, "trace.suffix=None: must be a mapping"),
        (groups, {"output": []}, "trace.output=[]: must be a mapping"),
        (groups, {"skew": -0.1}, "trace.skew=-0.1: must be a finite number >= 0"),
    ],
)
def test_bad_options_are_one_line(make: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make(**options)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
