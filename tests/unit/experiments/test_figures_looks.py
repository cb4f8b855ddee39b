"""One look per policy, in every figure."""

from experiments.figures.looks import _KNOWN, COLOURS, look_of, looks_of
from experiments.figures.units import brief, title_of, unit_of


def test_a_known_policy_looks_the_same_alone_and_among_others() -> None:
    alone = looks_of(["jsq"])["jsq"]
    for company in (["random", "jsq"], ["jsq", "mine"], ["lpm", "x", "y", "z", "jsq"]):
        assert looks_of(company)["jsq"] == alone


def test_no_two_known_policies_share_colour_and_marker() -> None:
    looks = [look_of(policy) for policy in _KNOWN]
    assert len({(look.colour, look.marker) for look in looks}) == len(_KNOWN)


def test_unknown_policies_get_colours_that_nobody_has_while_there_are_any() -> None:
    names = ["jsq", "random", *(f"policy_{k}" for k in range(8))]
    looks = looks_of(names)
    assert len({look.colour for look in looks.values()}) == len(COLOURS)
    assert looks == looks_of(names)
    assert list(looks) == names


def test_many_unknown_policies_still_differ_in_colour_or_marker() -> None:
    looks = looks_of(["jsq", *(f"lpm + jsq k={k}" for k in range(60))])
    assert len({(look.colour, look.marker) for look in looks.values()}) == 61


def test_the_look_of_an_unknown_policy_does_not_depend_on_the_order() -> None:
    names = [f"policy_{k}" for k in range(6)]
    assert looks_of(names) == looks_of(list(reversed(names)))


def test_a_pair_of_policies_has_the_colour_of_the_last_and_the_marker_of_the_first() -> None:
    pair = look_of("lpm + jsq")
    assert pair.colour == look_of("jsq").colour
    assert pair.marker == look_of("lpm").marker
    product = [f"{a} + {b}" for a in ("fcfs", "lpm", "lof") for b in ("jsq", "random", "lmetric")]
    looks = looks_of(product)
    assert len({(look.colour, look.marker) for look in looks.values()}) == 9


def test_titles_and_units_of_metrics() -> None:
    assert title_of("ttft_p99_s") == "TTFT p99"
    assert title_of("e2e_p50_s") == "E2E latency median"
    assert title_of("output_tokens_per_s") == "Output"
    assert title_of("num_preemptions") == "Preemptions"
    assert (unit_of("ttft_mean_s", [0.2, float("nan")]).name) == "ms"
    assert (unit_of("ttft_mean_s", [0.2, 3.0]).name) == "s"
    assert (unit_of("tpot_mean_s", [2e-4]).factor) == 1e6
    assert (unit_of("prefix_hit_ratio", [0.5])).factor == 100
    assert (unit_of("load_imbalance_ratio", [1.5])).name == "max / mean"
    assert (unit_of("hbm_bytes", [2e12])).name == "TB"
    assert (unit_of("request_rate_per_s", [2.0])).name == "requests/s"


def test_a_rate_has_no_trailing_zeros() -> None:
    assert [brief(x) for x in (1500.0, 30.0, 7.53, float("nan"))] == ["1,500", "30", "7.53", "-"]
