"""The three-valued rule at its bounds."""

import math

import pytest

from loadjudge.gates.verdict import growth, missing_tokens, not_available, within


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.9, 1.1, "pass"),  # the bounds themselves belong to it
        (0.95, 1.05, "pass"),
        (0.89, 1.05, "inconclusive"),
        (0.95, 1.11, "inconclusive"),
        (0.5, 2.0, "inconclusive"),
        (1.1, 1.3, "inconclusive"),  # touches the bound: not wholly outside
        (1.1001, 1.3, "fail"),
        (0.5, 0.8999, "fail"),
        (-math.inf, math.inf, "inconclusive"),
    ],
)
def test_an_interval_passes_inside_fails_outside_and_is_open_astride(
    low: float, high: float, verdict: str
) -> None:
    assert within(low, high, 0.9, 1.1) == verdict


def test_missing_tokens_shrink_the_interval_to_the_nearer_bound() -> None:
    # Half width 0.2, distance 0.05: 16 times the tokens decide it.
    assert missing_tokens(1000, 1.05, 0.85, 1.25, 0.9, 1.1) == 15_000


def test_missing_tokens_of_a_figure_outside_the_bounds() -> None:
    assert missing_tokens(1000, 1.2, 1.0, 1.4, 0.9, 1.1) == 3_000


def test_no_number_of_tokens_decides_a_figure_on_the_bound() -> None:
    assert missing_tokens(1000, 1.1, 1.0, 1.2, 0.9, 1.1) is None


def test_an_interval_without_end_has_no_missing_tokens() -> None:
    """One session has no interval: this was an overflow."""
    assert missing_tokens(1000, 1.0, 0.0, math.inf, 0.9, 1.1) is None


def test_a_gate_that_cannot_be_had_is_not_passed() -> None:
    assert not_available("no counter").verdict == "n/a"


def test_an_interval_far_too_wide_tells_no_growth() -> None:
    """It overflowed where a workload had a handful of replies."""
    assert growth(1.0, -1e200, 1e200, 0.9, 1.1) is None
    assert growth(1.0, -math.inf, math.inf, 0.9, 1.1) is None
    assert growth(1.0, 0.8, 1.2, 0.9, 1.1) == pytest.approx(4)
