"""Reply lengths: their ratio, its interval, and the gate."""

import math
from typing import Any

import numpy as np
import pytest

from loadjudge.gates.lengths import check, judge, length_ratio
from loadjudge.record.evaluation import LengthRatio


def replies(make: Any, arm: str, lengths: dict[str, list[int]]) -> list[Any]:
    plays = [make.play(s, turns=tuple(map(make.turn, n))) for s, n in lengths.items()]
    return [make.one_pass(arm, 0, plays)]


def test_the_ratio_is_of_mean_tokens_of_a_reply(make: Any) -> None:
    candidate = replies(make, "candidate", {"a": [10, 20], "b": [33]})
    ratio = length_ratio(candidate, replies(make, "stock", {"a": [10], "b": [20]}), 1)
    assert ratio is not None
    assert ratio.ratio == pytest.approx((63 / 3) / (30 / 2))
    assert ratio.low < ratio.ratio < ratio.high


def test_failed_and_uncounted_turns_are_left_out(make: Any) -> None:
    turns = (make.turn(10), make.failed_turn(), make.turn(None))
    candidate = [make.one_pass("candidate", 0, [make.play("a", turns=turns)])]
    ratio = length_ratio(candidate, replies(make, "stock", {"a": [10]}), 1)
    assert ratio is not None
    assert ratio.ratio == 1


def test_fillers_are_left_out(make: Any) -> None:
    one = make.one_pass("candidate", 0, [make.play("a", 10), make.play("f", 99, measured=False)])
    ratio = length_ratio([one], replies(make, "stock", {"a": [10]}), 1)
    assert ratio is not None
    assert ratio.ratio == 1


def test_a_session_that_one_arm_has_no_reply_of_is_left_out_of_both(make: Any) -> None:
    candidate = [make.one_pass("candidate", 0, [make.play("a", 10), make.failed_play("b")])]
    ratio = length_ratio(candidate, replies(make, "stock", {"a": [10], "b": [90]}), 1)
    assert ratio is not None
    assert ratio.ratio == 1


def test_nothing_counted_has_no_ratio(make: Any) -> None:
    none = [make.one_pass("candidate", 0, [make.failed_play("a")])]
    assert length_ratio(none, replies(make, "stock", {"a": [10]}), 1) is None
    gate, figure = check(make.run(none), 0.1, 1)
    assert gate.verdict == "n/a"
    assert figure is None


def test_replies_that_all_end_at_max_tokens_have_a_ratio_of_exactly_one(make: Any) -> None:
    """No session differs from another then, and the interval's quantile raised."""
    same = {f"s{i}": [64] * (i + 1) for i in range(6)}
    ratio = length_ratio(replies(make, "candidate", same), replies(make, "stock", same), 1)
    assert ratio == LengthRatio(ratio=1, low=1, high=1, sessions=6)


def test_one_session_is_inconclusive_and_no_tokens_are_promised(make: Any) -> None:
    """The interval has no end, and the number of missing tokens overflowed."""
    passes = [*replies(make, "candidate", {"a": [10]}), *replies(make, "stock", {"a": [10]})]
    gate, figures = check(make.run(passes), 0.1, 1)
    assert gate.verdict == "inconclusive"
    assert gate.missing_tokens is None
    assert figures is not None
    assert (figures["solo"].low, figures["solo"].high) == (0, math.inf)
    assert "(no interval: too few sessions)" in gate.sentence


@pytest.mark.parametrize(
    ("share", "verdict"), [(1.0, "pass"), (0.5, "fail"), (0.9, "inconclusive")]
)
def test_replies_cut_short_fail_the_gate(make: Any, share: float, verdict: str) -> None:
    rng = np.random.default_rng(4)
    lengths = {f"s{i}": list(rng.integers(180, 220, 4)) for i in range(20)}
    cut = {s: [round(share * n) for n in turns] for s, turns in lengths.items()}
    for turns in cut.values():
        turns[0] += int(rng.integers(-30, 31)) if share == 0.9 else 0
    passes = [*replies(make, "candidate", cut), *replies(make, "stock", lengths)]
    gate, figures = check(make.run(passes), 0.1, 1)
    assert gate.verdict == verdict
    assert figures is not None
    assert figures["solo"].ratio == pytest.approx(share, rel=0.02)
    assert (gate.bound_low, gate.bound_high) == (0.9, 1.1)
    assert (gate.missing_tokens is not None) == (verdict == "inconclusive")


SOUND = LengthRatio(ratio=1.0, low=0.99, high=1.01)
OPEN = LengthRatio(ratio=1.05, low=0.95, high=1.15)
SHORT = LengthRatio(ratio=0.8, low=0.75, high=0.85)


@pytest.mark.parametrize(
    ("ratios", "verdict", "shown"),
    [
        ({"solo": SOUND, "team": SOUND}, "pass", SOUND),
        ({"solo": SOUND, "team": OPEN}, "inconclusive", OPEN),
        ({"solo": SHORT, "team": OPEN, "busy": SOUND}, "fail", SHORT),
    ],
)
def test_the_worst_workload_gives_the_gates_verdict_and_figure(
    ratios: dict[str, LengthRatio], verdict: str, shown: LengthRatio
) -> None:
    gate = judge(ratios, 0.1, dict.fromkeys(ratios, 1000))
    assert (gate.verdict, gate.figure) == (verdict, shown.ratio)
    assert all(w in gate.sentence for w in ratios)


def test_without_a_margin_nothing_is_judged() -> None:
    gate = judge({"solo": SHORT}, None)
    assert (gate.verdict, gate.figure) == ("n/a", 0.8)


def test_so_few_sessions_neither_pass_nor_fail() -> None:
    for ratio in (SOUND, SHORT):
        few = ratio.model_copy(update={"sessions": 7})
        gate = judge({"solo": few, "team": SOUND}, 0.1)
        assert gate.verdict == "inconclusive"
        assert "fewer than 8 sessions tell too little at solo" in gate.sentence
        enough = ratio.model_copy(update={"sessions": 8})
        assert judge({"solo": enough}, 0.1).verdict != "inconclusive"
