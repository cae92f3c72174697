"""The excesses against zero: honest engines' p-values are uniform, attacks are named."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from loadjudge.gates import simulate
from loadjudge.gates.excess import check, judge
from loadjudge.record.evaluation import ExcessFigure, ExcessTest
from loadjudge.record.values import ARMS

TARGET = simulate.Target(temperature=0.8, top_p=0.9)


def run_of(make: Any, seed: int, attack: simulate.Attack | None = None, sessions: int = 24) -> Any:
    rng = np.random.default_rng([seed, 3])
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
    found = [check(run_of(make, seed, sessions=12), 0.001)[1] for seed in range(250)]
    for name in ("likelihood", "first choice", "end", "copy"):
        for of in ("p_candidate", "p_stock", "p_gap"):
            p = [getattr(f.figures[name], of) for f in found]
            assert stats.kstest(p, "uniform").pvalue > 0.001, (name, of)
    assert np.mean([f.p_candidate < 0.05 for f in found]) < 0.1


@pytest.mark.parametrize(
    ("attack", "said"),
    [
        (simulate.shy(0.15), "take the target's first choice less often than the target would"),
        (simulate.greedy(0.08), "take the target's first choice more often"),
        (simulate.ended(1.6), "replies end more often than the target would end them"),
        (simulate.noisy(1.0), "tokens are less likely than the target's own draws"),
        (simulate.lenient(2.0), "take what a prompt lookup proposes more often"),
    ],
)
def test_an_attack_fails_by_the_statistic_that_it_moves(
    make: Any, attack: simulate.Attack, said: str
) -> None:
    gate, _ = check(run_of(make, 5, attack, sessions=200), 0.001)
    assert gate.verdict == "fail"
    assert said in gate.sentence
    assert "off its known zero" in gate.sentence


def figure(candidate: float, stock: float, gap: float) -> ExcessFigure:
    return ExcessFigure(
        candidate=0.01, p_candidate=candidate, stock=0.01, p_stock=stock, gap=0.0, p_gap=gap
    )


@pytest.mark.parametrize(
    ("candidate", "stock", "gap", "exact", "verdict"),
    [
        (0.5, 0.5, 0.5, True, "pass"),
        (1e-5, 0.5, 0.5, True, "fail"),
        (1e-5, 1e-5, 0.5, True, "pass"),  # stock is off as well: the scorer is
        (1e-5, 1e-5, 1e-6, True, "fail"),
        (1e-5, 0.5, 0.5, False, "pass"),
    ],
)
def test_zero_counts_where_stock_shows_that_it_holds(
    candidate: float, stock: float, gap: float, exact: bool, verdict: str
) -> None:
    test = ExcessTest(
        figures={"likelihood": figure(candidate, stock, gap)},
        p_candidate=candidate,
        p_stock=stock,
        p_gap=gap,
        tokens=1000,
        exact=exact,
    )
    assert judge(test, 0.001).verdict == verdict
    assert judge(test, None).verdict == "n/a"


def test_what_was_not_left_to_chance_and_is_off_has_no_chance(make: Any) -> None:
    """Greedy sampling leaves no variance; one token off it is proof."""
    target = simulate.Target(temperature=1e-3)
    rng = np.random.default_rng(1)
    scored = [
        r
        for arm in ARMS
        for r in simulate.replies(
            rng, arm, target=target, attack=simulate.unfiltered if arm == "candidate" else None
        )
    ]
    gate, _ = check(make.run([], scored=tuple(scored)), 0.001)
    assert gate.verdict == "fail"
