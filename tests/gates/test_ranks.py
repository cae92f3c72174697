"""Ranks: uniform under honesty, bent by anything else; and tokens outside support."""

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import stats

from loadjudge.gates import simulate, support
from loadjudge.gates.ranks import (
    _anderson_darling_tail,
    anderson_darling,
    check,
    judge,
    kolmogorov_smirnov,
)
from loadjudge.record.evaluation import Ranks
from loadjudge.record.values import ARMS

TARGET = simulate.Target(temperature=0.8, top_p=0.9)


def run_of(make: Any, seed: int, attack: simulate.Attack | None = None, sessions: int = 24) -> Any:
    rng = np.random.default_rng([seed, 2])
    attacks = {"stock": None, "candidate": attack}
    scored = [
        r
        for arm in ARMS
        for r in simulate.replies(
            rng, arm, target=TARGET, sessions=sessions, seed=seed, attack=attacks[arm]
        )
    ]
    return make.run([], scored=tuple(scored))


def test_p_values_of_an_honest_engine_are_uniform(make: Any) -> None:
    found = [check(run_of(make, seed, sessions=8), 0.001, 1)[1] for seed in range(200)]
    for name in ("p_two_sample", "p_uniform_candidate", "p_uniform_stock"):
        p = [getattr(f, name) for f in found]
        assert stats.kstest(p, "uniform").pvalue > 0.001, name


@pytest.mark.parametrize(
    "attack",
    [simulate.tempered(1.25), simulate.unfiltered, simulate.greedy(0.1), simulate.noisy(1.0)],
)
def test_attacks_bend_the_ranks(make: Any, attack: simulate.Attack) -> None:
    gate, figures = check(run_of(make, 1, attack, sessions=250), 0.001, 1)
    assert gate.verdict == "fail"
    assert figures is not None
    assert sum(figures.histogram_candidate) == figures.tokens
    assert figures.p_uniform_stock > 0.001


def test_the_seed_makes_the_ranks(make: Any) -> None:
    run = run_of(make, 2)
    assert check(run, 0.001, 1) == check(run, 0.001, 1)
    assert check(run, 0.001, 1) != check(run, 0.001, 2)


@pytest.mark.parametrize(("z", "p"), [(1.933, 0.1), (2.492, 0.05), (3.878, 0.01), (5.966, 0.001)])
def test_the_tail_of_anderson_darling_is_the_tables(z: float, p: float) -> None:
    """Quantiles of the limit distribution, Marsaglia and Marsaglia 2004; the last Lewis 1961."""
    assert _anderson_darling_tail(z) == pytest.approx(p, rel=0.02)


def test_the_tail_falls_without_a_jump() -> None:
    tail = [_anderson_darling_tail(z) for z in np.linspace(0.01, 30, 3000)]
    assert all(a >= b for a, b in itertools.pairwise(tail))
    assert 0 < tail[-1] < 1e-12
    assert _anderson_darling_tail(7.999) == pytest.approx(_anderson_darling_tail(8.001), rel=0.15)


def test_both_tests_agree_with_scipys() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.random(400), rng.beta(1.05, 1, 300)
    theirs = stats.anderson_ksamp([a, b], variant="midrank").pvalue
    assert anderson_darling(a, b) == pytest.approx(theirs, rel=0.1)
    assert kolmogorov_smirnov(b) == pytest.approx(stats.kstest(b, "uniform").pvalue, rel=1e-6)


def ranks(two: float, candidate: float, stock: float, exact: bool = True) -> Ranks:
    return Ranks(
        p_two_sample=two,
        p_uniform_candidate=candidate,
        p_uniform_stock=stock,
        histogram_candidate=[5],
        histogram_stock=[5],
        tokens=5,
        exact=exact,
    )


@pytest.mark.parametrize(
    ("figures", "verdict", "shown"),
    [
        (ranks(0.4, 0.3, 0.5), "pass", 0.3),
        (ranks(1e-4, 0.3, 0.5), "fail", 1e-4),
        (ranks(0.4, 1e-5, 0.5), "fail", 1e-5),
        (ranks(0.4, 1e-5, 1e-5), "pass", 0.4),  # stock's are off as well
        (ranks(0.4, 1e-5, 0.5, exact=False), "pass", 0.4),
    ],
)
def test_uniformity_counts_where_stock_shows_that_it_holds(
    figures: Ranks, verdict: str, shown: float
) -> None:
    gate = judge(figures, 0.001)
    assert (gate.verdict, gate.figure) == (verdict, shown)


def test_tokens_outside_support_fail_and_none_seen_is_bounded_by_their_number(make: Any) -> None:
    gate, figures = support.check(run_of(make, 3, simulate.unfiltered), 0.01)
    assert gate.verdict == "fail"
    assert figures is not None
    assert figures.stock == 0 < figures.candidate
    gate, figures = support.check(run_of(make, 3), 0.01)
    assert gate.verdict == "pass"
    assert figures is not None
    assert figures.gap == 0
    assert figures.high == pytest.approx(4 / figures.tokens, rel=0.2)
    assert support.check(run_of(make, 3), 1e-4)[0].verdict == "inconclusive"
