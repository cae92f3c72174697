"""Means over tokens: the model's own error or the sessions'."""

import numpy as np
import pytest

from loadjudge.gates.clusters import Estimate, difference, mean, sums


def test_replies_add_up_by_session_and_empty_ones_say_nothing() -> None:
    one = sums([("a", 2, 1.0, 0.5), ("b", 3, 2.0, 0.5), ("a", 1, 1.0, 0.5), ("c", 0, 0.0, 0.0)])
    assert one.sessions == ("a", "b")
    assert one.tokens.tolist() == [3, 3]
    assert (one.n, one.mean) == (6, pytest.approx(4 / 6))


def test_equal_sessions_have_the_error_of_a_plain_mean() -> None:
    values = np.array([0.1, 0.5, 0.2, 0.9])
    found = mean(sums((f"s{i}", 10, 10 * v, 0.0) for i, v in enumerate(values)))
    assert found.value == pytest.approx(values.mean())
    assert found.se == pytest.approx(values.std(ddof=1) / 2)
    assert found.freedom == pytest.approx(3)


def test_the_sessions_error_counts_where_chance_does_not_explain_it() -> None:
    rows = [(f"s{i}", 10.0, float(i), 0.0) for i in range(4)]
    clusters = mean(sums(rows)).se

    def with_model(ratio: float) -> Estimate:
        variance = (clusters / ratio * 40) ** 2 / 4
        return mean(sums((s, n, x, variance) for s, n, x, _ in rows))

    # χ²₃ is below 6.25 nine times in ten: a ratio of errors of √(6.25 / 3) = 1.44.
    assert (with_model(1.5).se, with_model(1.5).freedom) == (clusters, pytest.approx(3))
    assert (with_model(1.4).se, with_model(1.4).freedom) == (pytest.approx(clusters / 1.4), np.inf)


def test_what_a_session_does_to_both_arms_alike_cancels() -> None:
    stock = sums((f"s{i}", 10, float(i), 0.0) for i in range(6))
    candidate = sums((f"s{i}", 10, i + 0.5, 0.0) for i in range(6))
    gap = difference(candidate, stock)
    assert gap.value == pytest.approx(0.05)
    assert gap.se == pytest.approx(0, abs=1e-12)
    assert mean(stock).se > 0.05


def test_sessions_of_one_arm_alone_are_clusters_too() -> None:
    stock = sums((f"s{i}", 10, float(i), 0.0) for i in range(6))
    candidate = sums((f"t{i}", 10, float(i), 0.0) for i in range(6))
    gap = difference(candidate, stock)
    assert gap.clusters == 12
    assert gap.se == pytest.approx(mean(stock).se * np.sqrt(2))


def test_one_session_has_no_interval() -> None:
    assert mean(sums([("a", 10, 3.0, 1.0)])).interval(0.95) == (-np.inf, np.inf)


def test_few_long_sessions_are_as_few_as_they_are() -> None:
    even = mean(sums((f"s{i}", 10, float(i % 3), 0.0) for i in range(20)))
    uneven = mean(sums((f"s{i}", 1000 if i < 2 else 1, float(i % 3), 0.0) for i in range(20)))
    assert even.freedom == pytest.approx(19)
    assert uneven.freedom < 1.1
