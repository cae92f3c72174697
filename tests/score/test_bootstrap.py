"""Resampling of sessions: who moves together, and how often an interval holds the truth."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from loadjudge.score.bootstrap import interval, log_ratio, session_weights, standard_error
from loadjudge.score.speed import Pair, Plays, speed


def test_each_resample_draws_as_many_sessions_as_there_are() -> None:
    weights = session_weights({"solo": ["a", "b", "c"], "team": ["d", "e"]}, 1, 50)
    assert weights["solo"].shape == (50, 3)
    assert weights["solo"].sum(1).tolist() == [3] * 50
    assert weights["team"].sum(1).tolist() == [2] * 50
    assert weights["solo"].std() > 0


def test_a_session_of_two_workloads_moves_together_in_both() -> None:
    weights = session_weights({"solo": ["b", "a"], "team": ["c", "a", "d", "b"]}, 1, 50)
    assert (weights["solo"][:, 1] == weights["team"][:, 1]).all()
    assert (weights["solo"][:, 0] == weights["team"][:, 3]).all()


def test_shared_and_own_sessions_are_drawn_among_their_like() -> None:
    weights = session_weights({"solo": ["a", "b"], "team": ["a", "b", "c", "d", "e"]}, 1, 50)
    assert weights["team"][:, :2].sum(1).tolist() == [2] * 50
    assert weights["team"][:, 2:].sum(1).tolist() == [3] * 50


def test_the_same_seed_draws_the_same_and_another_does_not() -> None:
    names = {"solo": ["a", "b", "c", "d"]}
    assert (session_weights(names, 1)["solo"] == session_weights(names, 1)["solo"]).all()
    assert (session_weights(names, 1)["solo"] != session_weights(names, 2)["solo"]).any()


def test_influences_sum_to_zero_and_predict_one_more_draw() -> None:
    top, bottom = np.array([30.0, 50, 20]), np.array([1.0, 3, 2])
    logs, influence = log_ratio(np.ones((1, 3)), top, bottom)
    assert logs[0] == pytest.approx(math.log(100 / 6))
    assert influence[0].sum() == pytest.approx(0)
    more = log_ratio(np.array([[1 + 1e-6, 1, 1]]), top, bottom)[0][0]
    assert (more - logs[0]) / 1e-6 == pytest.approx(influence[0, 0], rel=1e-4)


def test_a_sum_of_zero_has_no_ratio() -> None:
    assert math.isnan(log_ratio(np.ones((1, 2)), np.zeros(2), np.ones(2))[0][0])


def test_one_session_has_no_interval() -> None:
    one = np.zeros(10)
    assert interval(0.5, 0.0, one, one, 1) == (-math.inf, math.inf)


@pytest.mark.parametrize("clusters", [2, 3])
def test_two_or_three_sessions_have_students_interval(clusters: int) -> None:
    anything = np.full(10, np.nan)
    low, high = interval(0.5, 0.1, anything, anything, clusters)
    reach = stats.t.ppf(0.975, clusters - 1) * 0.1
    assert (low, high) == pytest.approx((0.5 - reach, 0.5 + reach))


def test_the_reach_is_the_quantile_of_the_resamples_own_t() -> None:
    ses = np.full(101, 0.5)
    centres = 1.0 + np.linspace(-2, 2, 101) * 0.5  # |t| from 0 to 2
    low, high = interval(1.0, 0.1, centres, ses, 5)
    t95 = np.quantile(np.abs(np.linspace(-2, 2, 101)), 0.95, method="higher")
    assert (low, high) == pytest.approx((1 - t95 * 0.1, 1 + t95 * 0.1))


def test_resamples_without_spread_count_as_far_out() -> None:
    centres, ses = np.array([1.0] * 9 + [2.0]), np.array([1.0] * 9 + [0.0])
    assert interval(1.0, 0.1, centres, ses, 5) == (-math.inf, math.inf)


def test_sessions_that_all_say_the_same_have_an_interval_of_no_width() -> None:
    """Where every reply ended at max_tokens there was no t at all, and its quantile raised."""
    same = np.zeros(20)
    assert interval(0.25, 0.0, same + 0.25, same, 8) == (0.25, 0.25)
    assert interval(0.25, 1e-17, same + 0.25 + 1e-16, same, 8) == (0.25, 0.25)


def test_the_standard_error_of_a_ratio_is_the_linearised_one() -> None:
    rng = np.random.default_rng(5)
    top, bottom = rng.uniform(1, 2, 40), rng.uniform(1, 2, 40)
    logs, influence = log_ratio(np.ones((1, 40)), top, bottom)
    jackknife = [log_ratio(1 - np.eye(40)[[i]], top, bottom)[0][0] for i in range(40)]
    expected = math.sqrt(39 / 40 * np.square(np.array(jackknife) - np.mean(jackknife)).sum())
    assert standard_error(np.ones((1, 40)), influence)[0] == pytest.approx(expected, rel=0.05)
    assert math.isfinite(logs[0])


def _simulated(rng: np.random.Generator, n: int, names: Sequence[str]) -> Pair:
    """Sessions of skewed lengths whose own speedup scatters about 1.5 with their kind of text."""
    tokens = rng.lognormal(5, 0.8, n)
    pace = rng.lognormal(0, 0.2, n)
    gain = np.exp(rng.normal(math.log(1.5), 0.15, n))
    stock = Plays(tuple(names), tokens[None], (tokens * pace)[None])
    other = tokens * rng.lognormal(0, 0.3, n)  # replies are drawn anew on each arm
    return Pair(Plays(tuple(names), other[None], (other * pace / gain)[None]), stock)


def test_the_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(11)
    names = [f"s{i}" for i in range(12)]
    big = _simulated(np.random.default_rng(3), 400_000, ["s"] * 400_000)
    truth = float(big.candidate.rate()[0] / big.stock.rate()[0])
    held = {"pooled": 0, "specscore": 0}
    for seed in range(300):
        # Two workloads play the same sessions: what they share must not count twice.
        pairs = {"solo": _simulated(rng, 12, names)}
        pairs["team"] = pairs["solo"]
        figures = speed(pairs, seed)
        held["pooled"] += figures.pooled["solo"].low <= truth <= figures.pooled["solo"].high
        held["specscore"] += figures.interval.low <= truth <= figures.interval.high
    assert 0.92 <= held["pooled"] / 300 <= 0.98
    assert 0.92 <= held["specscore"] / 300 <= 0.98


def test_independent_workloads_make_specscores_interval_shorter() -> None:
    rng = np.random.default_rng(2)
    a, b = (_simulated(rng, 30, [f"{w}{i}" for i in range(30)]) for w in "ab")
    both = speed({"a": a, "b": b}, 1)

    def width(interval: object) -> float:
        return math.log(interval.high / interval.low)  # type: ignore[attr-defined]

    shorter = width(both.interval) / max(width(p) for p in both.pooled.values())
    assert 0.5 < shorter < 0.9
