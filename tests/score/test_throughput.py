"""What all lanes are served: by lane time, whatever a closing window cut."""

from types import SimpleNamespace

import pytest

from loadjudge.score.throughput import flow_of, lane_seconds


def test_a_closed_loop_serves_lanes_times_what_a_lane_gets(make: SimpleNamespace) -> None:
    plays = [make.play(f"s{i}", tokens=100, seconds=2.0) for i in range(6)]
    one = make.one_pass("stock", 0, plays, lanes=4, close_s=3.1)
    flow = flow_of([one])
    assert flow.tokens_per_s == pytest.approx(4 * 100 / 2)
    assert flow.turns_per_s == pytest.approx(4 / 2)
    assert flow.in_flight == pytest.approx(4)


def test_turns_that_the_closing_window_cut_do_not_lower_it(make: SimpleNamespace) -> None:
    plays = [make.play(f"s{i}", tokens=100, seconds=2.0) for i in range(6)]
    cut = [
        make.play(f"f{i}", measured=False, turns=(), outcome="cut", play=f"filler-{i}")
        for i in range(4)
    ]
    whole = flow_of([make.one_pass("stock", 0, plays, lanes=4)])
    assert flow_of([make.one_pass("stock", 0, [*plays, *cut], lanes=4)]) == whole


def test_scripted_waits_keep_a_lane_and_bring_nothing(make: SimpleNamespace) -> None:
    turns = (make.turn(50, sent_s=0.0), make.turn(50, sent_s=4.0))
    play = make.play("s", turns=turns, waited_s=3.0)
    one = make.one_pass("stock", 0, [play], lanes=2)
    assert play.lane_s == pytest.approx(2.0)
    assert lane_seconds([one], ["s"]) == pytest.approx([5.0])
    assert flow_of([one]).tokens_per_s == pytest.approx(2 * 100 / 5)


def test_a_failed_session_counts_for_neither_tokens_nor_time(make: SimpleNamespace) -> None:
    good = make.play("s", tokens=100, seconds=2.0)
    one = make.one_pass("stock", 0, [good, make.failed_play("x")], lanes=1)
    assert flow_of([one]).tokens_per_s == pytest.approx(50)


def test_an_open_loop_counts_what_had_surely_ended(make: SimpleNamespace) -> None:
    # A session comes every second and takes one: ten end in (0, 10], the last of which would
    # have been cut by a window that closed a moment earlier.
    plays = [
        make.play(f"s{i}", turns=(make.turn(30, sent_s=float(i), seconds=1.0),)) for i in range(10)
    ]
    one = make.one_pass("stock", 0, plays, lanes=0, rate=1.0, open_s=0.0, close_s=10.0)
    flow = flow_of([one])
    assert flow.seconds == pytest.approx(9.0)
    assert len(flow.turns) == 9
    assert flow.tokens_per_s == pytest.approx(30)
    assert flow.in_flight == pytest.approx(1.0)
