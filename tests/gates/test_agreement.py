"""Greedy agreement, by ids where both arms send them, else by text."""

from typing import Any

import pytest

from loadjudge.gates.agreement import check, share_before_difference


@pytest.mark.parametrize(
    ("a", "b", "share"),
    [
        ("abcd", "abcd", 1.0),
        ("abcd", "abxd", 0.5),
        ("abcd", "xbcd", 0.0),
        ("abcd", "ab", 0.5),  # what one of them lacks is a difference
        ("ab", "abcd", 0.5),
        ("", "", 1.0),
        ("", "abcd", 0.0),
    ],
)
def test_the_share_is_of_the_longer_reply_before_the_first_difference(
    a: str, b: str, share: float
) -> None:
    assert share_before_difference(a, b) == share


def replies(make: Any, candidate: Any, again: Any = None) -> Any:
    greedy = (make.greedy("stock"), again or make.greedy("stock", round=1), candidate)
    return make.run([], greedy=greedy)


def test_the_candidate_and_stock_itself_stand_against_stocks_first_replies(make: Any) -> None:
    again = make.greedy("stock", ids=(1, 2, 3, 9), round=1)
    gate, figure = check(replies(make, make.greedy("candidate", ids=(1, 2, 9, 9)), again), 0.9)
    assert figure is not None
    assert (figure.candidate, figure.stock, figure.replies) == (0.5, 0.75, 1)
    assert gate.verdict == "fail"


@pytest.mark.parametrize(("floor", "verdict"), [(0.5, "pass"), (0.501, "fail"), (None, "n/a")])
def test_the_floor_itself_is_enough(make: Any, floor: float | None, verdict: str) -> None:
    run = replies(make, make.greedy("candidate", ids=(1, 2, 9, 9)))
    assert check(run, floor)[0].verdict == verdict


def test_where_an_arm_sends_no_ids_the_text_is_compared(make: Any) -> None:
    _, figure = check(replies(make, make.greedy("candidate", "abcx", None)), 0.9)
    assert figure is not None
    assert figure.candidate == 0.75


def test_the_mean_is_over_sessions_that_all_three_replied_to(make: Any) -> None:
    both = [
        make.greedy(arm, round=round, session=s)
        for s in ("s0", "s1")
        for arm, round in (("stock", 0), ("stock", 1))
    ]
    _, figure = check(make.run([], greedy=(*both, make.greedy("candidate", session="s1"))), 0.9)
    assert figure is not None
    assert figure.replies == 1


def test_no_reply_is_no_evidence(make: Any) -> None:
    gate, figure = check(make.run([], greedy=()), 0.9)
    assert gate.verdict == "n/a"
    assert figure is None
