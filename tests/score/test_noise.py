"""Passes that differ as wholes widen the interval that sessions give."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from loadjudge.score.noise import PassNoise, mean_noise, pass_noise, widened


def passes(
    slow: list[float], luck: float = 0.0, sessions: int = 400, seed: int = 0
) -> tuple[Any, Any]:
    """Passes that are as a whole so many times as slow, and whose sessions have luck of their
    own."""
    rng = np.random.default_rng(seed)
    tokens = rng.lognormal(5, 0.7, sessions) * np.ones((len(slow), sessions))
    seconds = tokens * 0.01 * rng.lognormal(0, luck, tokens.shape)
    return tokens, seconds * np.array(slow)[:, None]


def test_a_pass_that_is_slow_as_a_whole_is_noise() -> None:
    noise = pass_noise([passes([1.0, 1.0]), passes([1.0, np.exp(0.2)])], [2, 2])
    # Squares 0.02 in all over two degrees of freedom, on two passes either side.
    assert noise.variance == pytest.approx(0.01 * (1 / 2 + 1 / 2), rel=0.03)
    assert noise.freedom == 2
    assert noise.reach() == pytest.approx(stats.t.ppf(0.975, 2) * 0.1, rel=0.03)


def test_the_luck_of_sessions_is_no_noise_of_passes() -> None:
    found, plain = 0.0, 0.0
    for seed in range(60):
        tokens, seconds = passes([1.0] * 4, luck=0.3, sessions=30, seed=seed)
        found += pass_noise([(tokens, seconds)], [2, 2]).variance
        plain += float(np.log(tokens.sum(1) / seconds.sum(1)).var(ddof=1))
    assert found < 0.5 * plain
    slow = pass_noise([passes([1.0, 1.1, 1.0, 1.1], luck=0.05)], [2, 2])
    assert slow.variance == pytest.approx(np.log(1.1) ** 2 / 3, rel=0.2)


def test_one_pass_tells_nothing_of_noise_and_adds_none() -> None:
    alone = pass_noise([passes([1.0]), passes([1.0])], [1, 1])
    assert alone == PassNoise(0.0, 0.0)
    assert widened(-1.0, 3.0, alone) == (-1.0, 3.0)


def test_noise_adds_in_quadrature_and_keeps_the_centre() -> None:
    noise = PassNoise(1.0, 1e9)
    low, high = widened(-1.0, 5.0, noise)
    assert (low + high) / 2 == pytest.approx(2.0)
    assert (high - low) / 2 == pytest.approx(math.hypot(3.0, 1.96), rel=1e-3)
    assert widened(-math.inf, math.inf, noise) == (-math.inf, math.inf)


def test_the_mean_of_workloads_averages_their_noise() -> None:
    mean = mean_noise([PassNoise(0.04, 4.0)] * 3)
    assert mean.variance == pytest.approx(0.04 / 3)
    assert mean.freedom == pytest.approx(12.0)  # Satterthwaite: equal parts add their freedom
    lone = mean_noise([PassNoise(0.04, 4.0), PassNoise(0.0, 4.0)])
    assert lone.freedom == pytest.approx(4.0)
