"""The figure of what Feather's learner came to do."""

from pathlib import Path

import pytest

from experiments.figures.errors import FigureError
from experiments.figures.learned import draw, tables
from experiments.figures.save import write_picture
from policies.batching.feather.learner import ADD, STOP, Decision, state_of
from policies.batching.feather.scheduler import Feather


def taught() -> Feather:
    policy = Feather()
    policy.learner.learn([Decision(state_of(1, 0, 3), ADD)] * 3, 2.0, 0)
    policy.learner.learn([Decision(state_of(2, 0, 30), STOP)], 1.0, 0)
    policy.learner.learn([Decision(state_of(44, 9, 1), STOP)], 1.0, 0)
    for k in range(4):
        policy.history.note(float(k), k == 1, 0.5)
    return policy


def test_the_tables_hold_shares_by_state_and_over_time() -> None:
    cells, curve = tables(taught().state())
    assert cells.to_dict("list") == {
        "num_running": [0, 40],
        "loss_chunks": [0, 5],
        "num_decisions": [4, 1],
        "add_ratio": [0.75, 0.0],
    }
    assert curve["add_ratio"].tolist() == [0.0, 1 / 2, 1 / 3, 1 / 4]
    assert curve["regret"].tolist() == [0.5, 1.0, 1.5, 2.0]
    assert curve["run"].tolist() == [0] * 4


def test_several_runs_share_a_table_and_have_a_line_each() -> None:
    cells, curve = tables(taught().state(), taught().state())
    assert cells["num_decisions"].tolist() == [8, 2]
    assert cells["add_ratio"].tolist() == [0.75, 0.0]
    assert curve["run"].tolist() == [0] * 4 + [1] * 4
    _, middle, right = draw(cells, curve).axes[:3]
    assert len(middle.lines) == len(right.lines) == 2


def test_it_is_drawn_the_same_again(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        write_picture(draw(*tables(taught().state())), tmp_path / name)
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    figure = draw(*tables(taught().state()))
    left = figure.axes[0]
    assert [tick.get_text() for tick in left.get_xticklabels()] == ["0-3", "40+"]
    assert next(tick.get_text() for tick in left.get_yticklabels()) == "5+"


def test_nothing_learned_is_nothing_to_draw() -> None:
    with pytest.raises(FigureError, match="no decision was rewarded"):
        tables(Feather().state())
