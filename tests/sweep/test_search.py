"""The search on endpoints whose true limit is known, exact and noisy."""

import numpy as np
import pytest
from scipy import stats

from loadjudge.sweep.search import SearchResult, Seen, combined, level_of, next_lanes


def searched(
    play: "object", most: int = 256, passes: int = 4
) -> tuple[SearchResult, list[int], dict[int, Seen]]:
    """Plays a search to its end; ``play(lanes, pass)`` gives what is seen."""
    seen: dict[int, Seen] = {}
    played: list[int] = []
    while not isinstance(step := next_lanes(seen, most, passes), SearchResult):
        before = seen[step].passes if step in seen else 0
        seen[step] = play(step, before)  # type: ignore[operator]
        played.append(step)
        assert len(played) < 200
    return step, played, seen


def exact(limit: int) -> "object":
    def play(lanes: int, before: int) -> Seen:
        keeps = lanes <= limit
        return Seen("keeps" if keeps else "misses", keeps, before + 1)

    return play


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 7, 8, 9, 12, 19, 33, 64, 100, 170, 255])
def test_an_exact_limit_is_found_within_a_tenth(limit: int) -> None:
    result, played, _ = searched(exact(limit))
    assert result.outcome == "found"
    assert result.lanes is not None
    assert result.lanes <= limit < result.lanes + max(2, 0.1 * result.lanes + 1)
    assert (result.shown_to_keep, result.shown_to_miss) == (result.lanes, result.misses)
    assert len(played) <= 12
    assert len(set(played)) == len(played)  # what is shown isn't played again


def test_no_number_keeps_it() -> None:
    result, played, _ = searched(exact(0))
    assert (result.outcome, result.lanes, result.misses) == ("none keeps", None, 1)
    assert played == [8, 4, 2, 1]


def test_all_numbers_keep_it() -> None:
    result, played, _ = searched(exact(999), most=50)
    assert (result.outcome, result.lanes, result.misses) == ("all keep", 50, None)
    assert played == [8, 16, 32, 50]


def test_a_border_that_cannot_be_decided_has_its_passes_and_no_more() -> None:
    def play(lanes: int, before: int) -> Seen:
        if 10 <= lanes <= 14:
            return Seen("undecided", lanes <= 12, before + 1)
        return Seen("keeps" if lanes < 10 else "misses", lanes < 10, before + 1)

    result, played, seen = searched(play, passes=3)
    assert (result.outcome, result.lanes, result.misses) == ("found", 12, 13)
    assert seen[12].passes == seen[13].passes == 3
    assert result.shown_to_keep is not None
    assert result.shown_to_miss is not None
    assert result.shown_to_keep < 12
    assert result.shown_to_miss > 13
    assert played.count(8) == 1  # far from the border nothing is repeated


def test_a_repeat_that_turns_a_figure_round_moves_the_gap() -> None:
    def play(lanes: int, before: int) -> Seen:
        if lanes == 11:  # kept it by luck at first
            return Seen("undecided", True, 1) if not before else Seen("misses", False, before + 1)
        keeps = lanes <= 9
        return Seen("keeps" if keeps else "misses", keeps, before + 1)

    result, _, _ = searched(play)
    assert (result.lanes, result.misses) == (9, 10)


def test_a_point_that_cannot_be_trusted_ends_the_search_and_is_named() -> None:
    def play(lanes: int, before: int) -> Seen:
        return Seen("keeps", True, before + 1, invalid=lanes > 20)

    result, _, seen = searched(play, passes=2)
    assert result.outcome == "invalid"
    assert result.lanes is not None
    assert 18 <= result.lanes <= 20
    assert result.misses is not None
    assert seen[result.misses].passes == 2  # it had its second chance


@pytest.mark.parametrize("limit", [6, 14, 40])
def test_under_noise_the_limit_is_found_within_one_lane_in_five(limit: int) -> None:
    """Shares of turns that keep the limit fall through 90 % at the true limit, not at once; a pass
    is a binomial draw of 120 turns."""
    hits = 0
    level = level_of(4)
    for trial in range(40):
        rng = np.random.default_rng([limit, trial])
        good: dict[int, list[int]] = {}

        def play(lanes: int, before: int, rng: object = rng, good: object = good) -> Seen:
            p = stats.norm.cdf(1.2816 - 4 * np.log(lanes / limit))
            drawn = good.setdefault(lanes, [])  # type: ignore[attr-defined]
            drawn.append(int(rng.binomial(120, p)))  # type: ignore[attr-defined]
            n, k = 120 * len(drawn), sum(drawn)
            ends = stats.binomtest(k, n).proportion_ci(level, "exact")
            verdict = "keeps" if ends.low >= 0.9 else "misses" if ends.high < 0.9 else "undecided"
            return Seen(verdict, k / n >= 0.9, before + 1)  # type: ignore[arg-type]

        result, _, _ = searched(play)
        assert result.lanes is not None
        hits += abs(result.lanes - limit) <= max(1, 0.2 * limit)
    assert hits >= 38


def test_several_objectives_are_kept_if_all_are() -> None:
    assert combined({"a": ("keeps", True), "b": ("keeps", True)}) == ("keeps", True)
    assert combined({"a": ("keeps", True), "b": ("undecided", True)}) == ("undecided", True)
    assert combined({"a": ("undecided", True), "b": ("misses", False)}) == ("misses", False)
    assert combined({"a": ("keeps", True), "b": ("undecided", False)}) == ("undecided", False)
