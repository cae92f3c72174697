"""The text-level test: its level under honesty, its power, its kernel."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

from loadjudge.gates.text_test import check, discrepancy, first_replies, hamming

LETTERS = np.array(list("abcdefghij"))


def texts(seed: int, prompts: int, each: int, tilt: float = 0.0) -> Any:
    """Pairs of replies whose letters follow each prompt's own distribution, the candidate's
    tilted."""
    rng = np.random.default_rng(seed)
    drawn = {}
    for i in range(prompts):
        weights = rng.dirichlet(np.ones(10) * 0.6)
        tilted = weights * np.exp(tilt * np.arange(10) / 10)
        replies = [
            ["".join(rng.choice(LETTERS, rng.integers(30, 60), p=w)) for _ in range(each)]
            for w in (tilted / tilted.sum(), weights)
        ]
        drawn[f"p{i}"] = list(zip(*replies, strict=True))
    return drawn


def test_p_values_of_an_honest_engine_are_uniform() -> None:
    found = [discrepancy(texts(seed, 6, 3), seed, 199) for seed in range(200)]
    p = [f.p for f in found if f is not None]
    assert stats.kstest(p, "uniform").pvalue > 0.001
    assert np.mean(np.array(p) <= 0.05) <= 0.1


def test_other_texts_are_told_apart() -> None:
    found = discrepancy(texts(1, 40, 4, tilt=4.0), 1)
    assert found is not None
    assert found.p < 0.001
    assert (found.prompts, found.replies) == (40, 320)


def test_replies_that_are_the_same_on_both_arms_are_not() -> None:
    same = {p: [(s, s) for _, s in pairs] for p, pairs in texts(1, 10, 3).items()}
    found = discrepancy(same, 1, 199)
    assert found is not None
    assert found.p == 1


def test_pairs_that_shared_seeds_make_alike_hide_no_difference() -> None:
    """Labels were shuffled over all replies: p was 1 whatever the candidate did, as a pass's two
    replies are nearly the same."""

    def coupled(seed: int, changed: float) -> Any:
        rng = np.random.default_rng([seed, 1])
        pairs = texts(seed, 40, 3)
        return {
            p: [(s[:20] + "j" * int(rng.random() < changed) * 9 + s[20:], s) for _, s in both]
            for p, both in pairs.items()
        }

    honest, cheat = discrepancy(coupled(1, 0.0), 1, 1999), discrepancy(coupled(1, 0.7), 1, 1999)
    assert honest is not None
    assert cheat is not None
    assert honest.p == 1
    assert cheat.p < 0.001


@pytest.mark.parametrize(
    ("a", "b", "alike"), [("abcd", "abcd", 1.0), ("abcd", "abxx", 0.5), ("ab", "abcd", 0.5)]
)
def test_the_kernel_is_the_share_of_like_characters(a: str, b: str, alike: float) -> None:
    assert hamming([a, b]).tolist() == [[1, alike], [alike, 1]]


def test_odd_characters_and_empty_replies_have_a_kernel() -> None:
    assert hamming(["", ""]).tolist() == [[1, 1], [1, 1]]
    assert hamming(["\U0001f600\ud800", "\U0001f600é"])[0, 1] == 0.5


def run_of(make: Any, drawn: Any, **changes: Any) -> Any:
    passes = [
        make.one_pass(
            arm,
            number,
            [
                make.play(
                    p, turns=(make.turn(9, content=pairs[number][side]), make.turn(9, index=1))
                )
                for p, pairs in drawn.items()
            ],
        )
        for side, arm in enumerate(("candidate", "stock"))
        for number in range(3)
    ]
    return make.run(passes, **changes)


@pytest.mark.parametrize(("tilt", "verdict"), [(0.0, "pass"), (6.0, "fail")])
def test_first_turns_over_passes_are_what_is_tested(make: Any, tilt: float, verdict: str) -> None:
    run = run_of(make, texts(2, 30, 3, tilt))
    assert {len(pairs) for pairs in first_replies(run).values()} == {3}
    gate, _ = check(run, 0.001, 1)
    assert gate.verdict == verdict


def test_one_reply_a_prompt_is_no_test(make: Any) -> None:
    passes: Sequence[Any] = [
        make.one_pass(arm, 0, [make.play("a")]) for arm in ("stock", "candidate")
    ]
    gate, figures = check(make.run(passes), 0.001, 1)
    assert (gate.verdict, figures) == ("n/a", None)


def test_greedy_replies_are_no_test(make: Any) -> None:
    run = run_of(make, texts(2, 3, 3))
    run.header["task"]["sampling"] = {"temperature": 0}
    assert "greedy" in check(run, 0.001, 1)[0].sentence
