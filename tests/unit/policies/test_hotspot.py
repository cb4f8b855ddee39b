"""The hotspot detector: classes, alarm, two in a row per holder, and the end of the filter."""

from collections.abc import Sequence

import pytest

from policies.routing.hotspot import NO_CLASS, HotspotDetector
from policies.routing.lmetric import LMetric
from sim.request import Request
from tests.unit.policies.prefix_clusters import sharing, view_of

NODES = [(-1, 512), (0, 1000), (0, 300)]
"""All prompts begin with node 0; node 1 holds token 1,024."""

HOT, COLD = (0, 1), (0, 2)


def requests(num_hot: int = 1, num_cold: int = 1) -> tuple[list[Request], list[Request]]:
    both = sharing(NODES, [(2000, HOT)] * num_hot + [(2000, COLD)] * num_cold)
    return both[:num_hot], both[num_hot:]


def ask(
    detector: HotspotDetector,
    request: Request,
    now_s: float,
    matched: Sequence[int] = (1504, 0, 0, 0),
    scores: Sequence[float] = (1, 2, 2, 2),
) -> list[int]:
    return list(detector.filtered(request, matched, scores, now_s))


def test_a_class_is_the_node_that_holds_the_token() -> None:
    (hot,), (cold,) = requests()
    assert HotspotDetector(True).class_of(hot) == 1
    assert HotspotDetector(True).class_of(cold) == NO_CLASS
    assert HotspotDetector(True, class_tokens=512).class_of(hot) == 0
    assert HotspotDetector(True, class_tokens=513).class_of(hot) == 1
    assert HotspotDetector(True, class_tokens=812).class_of(cold) == 2
    assert HotspotDetector(True, class_tokens=813).class_of(cold) == NO_CLASS


def test_the_second_in_a_row_is_kept_off_the_only_holder() -> None:
    (hot,), (cold,) = requests()
    detector = HotspotDetector(True)
    assert ask(detector, cold, 0.0) == []
    # 1 of 2 arrivals: 1 / 1 > 1 / 3. First in a row, then the second: 2 |M| = 2.
    assert ask(detector, hot, 1.0) == []
    assert ask(detector, hot, 2.0) == [0]
    assert ask(detector, hot, 3.0) == [0]
    assert ask(detector, cold, 4.0) == []
    # Elsewhere is better now: the count is reset, and with it the filter.
    assert ask(detector, hot, 5.0, scores=(3, 2, 2, 2)) == []
    assert ask(detector, hot, 6.0) == []
    assert ask(detector, hot, 7.0, scores=(2, 2, 2, 2)) == [0]
    assert [(d.time_s, d.event) for d in detector.decisions] == [
        (1.0, "alarm"),
        (2.0, "filter"),
        (5.0, "alarm"),
        (7.0, "filter"),
    ]
    first = detector.decisions[0]
    assert (first.node, first.share_ratio, first.num_holders) == (1, 0.5, 1)


def test_with_two_holders_it_takes_four_in_a_row() -> None:
    (hot,), (cold,) = requests()
    detector = HotspotDetector(True)
    matched = (1504, 1504, 0, 0)
    # x / (1 - x) must exceed 2 / 2: two of three arrivals.
    seen = [ask(detector, r, float(k), matched) for k, r in enumerate([cold, hot, hot])]
    assert seen == [[], [], []]
    assert [d.event for d in detector.decisions] == ["alarm"]
    seen = [ask(detector, hot, 3.0 + k, matched) for k in range(3)]
    assert seen == [[], [], [0, 1]]


@pytest.mark.parametrize(
    ("matched", "with_others"),
    [((0, 0, 0, 0), True), ((1504, 1504, 1504, 1504), True), ((1504, 0, 0, 0), False)],
)
def test_no_alarm_without_holders_without_others_or_without_other_requests(
    matched: Sequence[int], with_others: bool
) -> None:
    (hot,), (cold,) = requests()
    detector = HotspotDetector(True)
    if with_others:
        ask(detector, cold, 0.0)
    assert [ask(detector, hot, 1.0 + k, matched) for k in range(5)] == [[]] * 5
    assert detector.decisions == []


def test_a_sliding_window_forgets_and_ends_the_alarm() -> None:
    (hot,), (cold,) = requests()
    detector = HotspotDetector(True, window_s=10.0)
    ask(detector, cold, 0.0)
    assert [ask(detector, hot, t) for t in (1.0, 2.0)] == [[], [0]]
    # Six others since: at 11.5 s the window holds one hot (2 s), six others and this one: 2 / 6
    # is not above 1 / 3.
    for k in range(6):
        ask(detector, cold, 9.0 + k / 10)
    assert ask(detector, hot, 11.5) == []
    assert detector.decisions[-1].event == "clear"


def test_a_tumbling_window_starts_anew() -> None:
    (hot,), (cold,) = requests()
    detector = HotspotDetector(False, window_s=10.0)
    ask(detector, cold, 7.0)
    assert [ask(detector, hot, t) for t in (8.0, 9.0, 9.9)] == [[], [0], [0]]
    ask(detector, cold, 10.0)
    assert [ask(detector, hot, t) for t in (12.0, 13.0)] == [[], [0]]


def test_lmetric_balances_a_filtered_class_over_the_rest() -> None:
    (hot,), (cold,) = requests()
    router = LMetric(hotspot="sliding")
    view = view_of([1504, 0, 0], running=[1, 1, 0])
    idle = view_of([0, 0, 0])
    assert router.route(cold, idle, 0.0) == 0
    # 496 * 2 beats 2000 * 1; the second time instance 0 is out: 2000 * 1 beats 2000 * 2.
    assert [router.route(hot, view, 1.0 + k) for k in range(3)] == [0, 2, 2]
