"""Likelihood, first choices and ends: honest engines are covered, attacks are caught."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from loadjudge.gates import first_choice, lengths, likelihood, simulate
from loadjudge.gates.gaps import (
    END,
    FIRST_CHOICE,
    FIRST_CHOICE_LEAN,
    LIKELIHOOD,
    Excess,
    excess_gap,
    plain_gap,
)
from loadjudge.gates.terms import joined
from loadjudge.record.evaluation import ExcessGap, Gap, Gate, LengthRatio, Limits
from loadjudge.record.values import ARMS, ScoredReply

LIMITS = Limits(excess_likelihood_bound=0.03, excess_argmax_bound=0.01)
SHARP = simulate.Target(temperature=0.7, top_p=0.9)


def both(
    seed: int, attack: simulate.Attack | None = None, sessions: int = 24, **changes: Any
) -> list[ScoredReply]:
    rng = np.random.default_rng([seed, 1])
    attacks = {"stock": None, "candidate": attack}
    return [
        r
        for arm in ARMS
        for r in simulate.replies(
            rng, arm, sessions=sessions, seed=seed, attack=attacks[arm], **changes
        )
    ]


@pytest.mark.parametrize("what", [LIKELIHOOD, FIRST_CHOICE, END])
def test_an_honest_engines_intervals_cover_zero_19_times_in_20(what: Excess) -> None:
    """A small version of bench/gates_coverage.py."""
    runs = 150
    hits = {"gap": 0, "candidate": 0}
    for seed in range(runs):
        found = excess_gap(both(seed, target=SHARP, turns=2, sessions=16), what)
        assert found is not None
        hits["gap"] += found.low <= 0 <= found.high
        hits["candidate"] += found.candidate_low <= 0 <= found.candidate_high
    for n in hits.values():
        assert 0.90 * runs <= n <= runs


def test_topics_move_the_plain_gap_and_not_the_excess() -> None:
    replies = both(3, sessions=40)
    plain, excess = plain_gap(replies, LIKELIHOOD), excess_gap(replies, LIKELIHOOD)
    assert plain is not None
    assert excess is not None
    assert excess.se < 0.8 * plain.se
    assert plain.tokens == excess.tokens == sum(
        len(r.terms.q) for r in replies if r.arm == "candidate"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("attack", "verdict", "said"),
    [
        (None, "pass", "as likely"),
        (simulate.tempered(1.15), "fail", "are less likely under the target than the stock"),
        (simulate.tempered(0.85), "fail", "are more likely"),
        (simulate.noisy(1.0), "fail", "are less likely"),
    ],
)
def test_likelihood_catches_another_temperature_and_another_target(
    make: Any, attack: simulate.Attack | None, verdict: str, said: str
) -> None:
    run = make.run([], scored=tuple(both(4, attack, sessions=400)))
    gate, plain, excess = likelihood.check(run, LIMITS)
    assert (gate.verdict, plain is None, excess is None) == (verdict, False, False)
    assert said in gate.sentence
    assert "95 % interval" in gate.sentence


@pytest.mark.parametrize(("attack", "verdict"), [(None, "pass"), (simulate.greedy(0.05), "fail")])
def test_forced_first_choices_fail(make: Any, attack: simulate.Attack | None, verdict: str) -> None:
    run = make.run([], scored=tuple(both(5, attack, sessions=900, turns=2)))
    gate, _, excess = first_choice.check(run, LIMITS)
    assert excess is not None
    assert gate.verdict == verdict
    assert (gate.figure, gate.low, gate.high) == (excess.gap, excess.low, excess.high)


@pytest.mark.parametrize(
    ("attack", "verdict", "said"),
    [
        (None, "pass", "as often as the target"),
        (simulate.ended(1.3), "fail", "more often than the target"),
        (simulate.ended(0.7), "fail", "less often than the target"),
    ],
)
def test_replies_that_end_early_or_late_fail_by_their_ends(
    attack: simulate.Attack | None, verdict: str, said: str
) -> None:
    ends = excess_gap(both(6, attack, sessions=400), END)
    sound = {"solo": LengthRatio(ratio=1, low=0.99, high=1.01)}
    gate = lengths.judge(sound, 0.05, {"solo": 1000}, ends=ends, ends_bound=0.006)
    assert gate.verdict == verdict
    assert said in gate.sentence


def test_lengths_pass_only_when_both_of_its_parts_do() -> None:
    ends = excess_gap(both(6, sessions=400), END)
    open_ratio = {"solo": LengthRatio(ratio=1, low=0.9, high=1.1)}
    gate = lengths.judge(open_ratio, 0.05, {"solo": 1000}, ends=ends, ends_bound=0.006)
    assert gate.verdict == "inconclusive"
    assert gate.missing_tokens == pytest.approx(3000)


SEEDS_GAP = Gap(gap=0.003, se=0.0448, candidate=-0.708, stock=-0.711)


def test_an_undecided_gate_says_what_it_would_take(make: Any) -> None:
    gate = likelihood.judge(SEEDS_GAP, None, Limits(likelihood_bound=0.05))
    assert gate.verdict == "inconclusive"
    assert gate.missing_tokens is None
    assert gate.growth == pytest.approx((1.96 * 0.0448 / 0.047) ** 2, rel=1e-3)
    assert "3.49 times the tokens would decide it" in gate.sentence
    run = make.run([], scored=tuple(both(8, sessions=8)))
    gate, _, _ = likelihood.check(run, LIMITS)
    assert gate.verdict == "inconclusive"
    assert gate.missing_tokens
    assert f"about {gate.missing_tokens:,} more tokens an arm" in gate.sentence


def test_a_lone_plain_limit_is_meant_for_the_excess_too() -> None:
    excess = excess_gap(both(4, sessions=100), LIKELIHOOD)
    assert excess is not None
    gate = likelihood.judge(SEEDS_GAP, excess, Limits(likelihood_bound=0.2))
    assert (gate.figure, gate.bound_high) == (excess.gap, 0.2)


def test_approximate_terms_leave_the_verdict_to_the_plain_gap() -> None:
    replies = [replace(r, exact=False) for r in both(4, sessions=20)]
    excess = excess_gap(replies, LIKELIHOOD)
    assert excess is not None
    assert not excess.exact
    gate = likelihood.judge(SEEDS_GAP, excess, Limits(likelihood_bound=0.05))
    assert gate.figure == SEEDS_GAP.gap
    gate = likelihood.judge(SEEDS_GAP, excess, LIMITS)
    assert gate.verdict == "n/a"
    assert "not exact" in gate.sentence


def test_a_scorer_that_is_another_model_than_stock_is_told() -> None:
    off = ExcessGap(
        **{"gap": 0.0, "se": 0.001, "low": -0.002, "high": 0.002, "tokens": 10_000},
        **{"candidate": -0.2, "candidate_low": -0.21, "candidate_high": -0.19},
        **{"stock": -0.2, "stock_low": -0.21, "stock_high": -0.19, "sessions": 20, "exact": True},
    )
    gate: Gate = likelihood.judge(SEEDS_GAP, off, LIMITS)
    assert gate.verdict == "pass"
    assert "the scorer is not the target" in gate.sentence


def test_greedy_replies_are_no_samples(make: Any) -> None:
    sampled = both(4, sessions=20)
    greedy: Sequence[ScoredReply] = [replace(r, workload="greedy") for r in both(9, sessions=20)]
    a = likelihood.check(make.run([], scored=tuple(sampled)), LIMITS)
    assert likelihood.check(make.run([], scored=(*sampled, *greedy)), LIMITS) == a


def test_nothing_scored_says_why(make: Any) -> None:
    gate, plain, excess = likelihood.check(make.run([]), LIMITS)
    assert (gate.verdict, gate.sentence) == ("n/a", "no reply was scored")
    assert plain is excess is None
    why = {"likelihood": "the endpoint gives no prompt log-probabilities"}
    assert likelihood.check(make.run([], unavailable=why), LIMITS)[0].sentence == why["likelihood"]


def test_a_lean_towards_first_choices_shows_sooner_where_they_are_weighted() -> None:
    target = simulate.Target(temperature=0.8, top_p=0.95)
    rng = np.random.default_rng(5)
    replies = simulate.replies(
        rng, "candidate", target=target, sessions=60, turns=40, attack=simulate.greedy(0.02)
    )
    terms = joined([r.terms for r in replies])

    def errors_off_zero(what: Excess) -> float:
        return float(what.excess(terms).sum() / np.sqrt(what.variance(terms).sum()))

    assert errors_off_zero(FIRST_CHOICE_LEAN) > 1.1 * errors_off_zero(FIRST_CHOICE) > 1.1
    # Where the first choice is unlikely the weight stays bounded: mean zero, variance as told.
    flat = np.full(4, 0.01)
    one = replace(joined([r.terms for r in replies[:0]]), is_first=np.array([1.0, 0, 0, 0]),
                  q_first=flat)  # fmt: skip
    assert FIRST_CHOICE_LEAN.excess(one) == pytest.approx([9.9, -0.1, -0.1, -0.1])
    assert FIRST_CHOICE_LEAN.variance(one) == pytest.approx(100 * 0.01 * 0.99 * np.ones(4))
