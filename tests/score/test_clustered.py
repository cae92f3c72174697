"""Shares and quantiles over sessions: against textbook values, and by their coverage."""

import numpy as np
import pytest
from scipy import stats

from loadjudge.score.clustered import Sample, latency_of, share_interval, share_within


def sample(values: np.ndarray, sessions: np.ndarray) -> Sample:
    return Sample(values, np.ones(len(values)), sessions.astype(np.intp), len(values))


def test_independent_turns_give_clopper_and_pearson() -> None:
    # One turn a session, 97 of 100 good: sessions as clusters say no more than the turns.
    good = np.array([1.0] * 97 + [0.0] * 3)
    share = share_interval(good, np.ones(100), 100)
    exact = stats.binomtest(97, 100).proportion_ci(0.95, "exact")
    assert share.share == 0.97
    assert share.low == pytest.approx(exact.low, abs=2e-3)
    assert share.high == pytest.approx(exact.high, abs=2e-3)


def test_all_good_is_not_certain() -> None:
    share = share_interval(np.full(10, 4.0), np.full(10, 4.0), 40)
    assert share.high == 1.0
    # 0.025 ** (1/40), and wider still for the few sessions.
    assert share.low < 0.025 ** (1 / 40) < 1


def test_sessions_that_stand_together_widen_the_interval() -> None:
    # The same 80 of 100 turns good: spread evenly over 20 sessions, or all of 16 sessions.
    even = share_interval(np.full(20, 4.0), np.full(20, 5.0), 100)
    together = share_interval(np.array([5.0] * 16 + [0.0] * 4), np.full(20, 5.0), 100)
    assert together.share == even.share == 0.8
    assert together.high - together.low > 1.8 * (even.high - even.low)


def test_one_session_has_no_interval() -> None:
    share = share_interval(np.array([3.0]), np.array([4.0]), 4)
    assert (share.low, share.high) == (0.0, 1.0)


@pytest.mark.parametrize(("within", "least"), [(0.0, 0.93), (0.6, 0.93)])
def test_the_interval_of_a_share_covers_it(within: float, least: float) -> None:
    # Sessions of five turns; ``within``: how much turns of a session are alike.
    rng = np.random.default_rng(1)
    limit, covered, trials = 1.0, 0, 400
    truth = stats.norm.cdf(limit)
    for _ in range(trials):
        common = rng.normal(size=(40, 1)) * np.sqrt(within)
        values = (common + rng.normal(size=(40, 5)) * np.sqrt(1 - within)).ravel()
        share = share_within(sample(values, np.repeat(np.arange(40), 5)), limit)
        covered += share.low <= truth <= share.high
    assert covered / trials >= least


def test_the_interval_of_a_quantile_covers_it() -> None:
    rng = np.random.default_rng(2)
    truth, covered, trials = float(stats.lognorm.ppf(0.9, 0.7)), 0, 400
    for _ in range(trials):
        common = rng.normal(size=(40, 1)) * np.sqrt(0.5)
        values = np.exp(0.7 * (common + rng.normal(size=(40, 5)) * np.sqrt(0.5))).ravel()
        p90 = latency_of(sample(values, np.repeat(np.arange(40), 5))).p90
        assert p90.low <= p90.value <= p90.high
        covered += p90.low <= truth <= p90.high
    assert covered / trials >= 0.93


def test_quantiles_are_those_of_the_weights() -> None:
    # One value counts for nine: it is the median, and the 90 % quantile too.
    values = Sample(np.array([5.0, 1.0]), np.array([9.0, 1.0]), np.array([0, 1]), 2)
    found = latency_of(values)
    assert (found.p50.value, found.p90.value, found.p99.value) == (5.0, 5.0, 5.0)
    assert found.mean == pytest.approx(4.6)
    assert found.n == 10
