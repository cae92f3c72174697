"""The largest number of lanes that keeps an objective, by bisection under noise. Pure.

The next step is a function of what was seen so far, and of nothing else: a search that was killed
goes on where it stopped. It first finds the border by the figures as they are: from ``START`` lanes
it doubles or halves until one number keeps the objective and another misses it, then halves the
gap between them (geometrically) until it is a tenth at most. Passes are then repeated at the two
ends of the gap alone, until each is shown by its interval or has had its passes. Where a repeat
turns a figure round, the gap moves and is halved again.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from loadjudge.record.evaluation import Model
from loadjudge.sweep.slo import SloVerdict

START = 8  # lanes
RESOLUTION = 0.1  # of the lanes

Outcome = Literal["found", "all keep", "none keeps", "invalid"]


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known at a number of lanes, over its passes so far."""

    verdict: SloVerdict
    keeps: bool  # by the figure
    passes: int
    invalid: bool = False  # the point can't be trusted


class SearchResult(Model):
    """``lanes``: the largest number whose figure keeps the objective; None where there is none.

    With confidence it lies at ``shown_to_keep`` or above and below ``shown_to_miss``; None: not
    shown.
    """

    outcome: Outcome
    lanes: int | None
    misses: int | None  # the smallest number above it that was tried, and misses
    shown_to_keep: int | None
    shown_to_miss: int | None


def next_lanes(seen: Mapping[int, Seen], most: int, passes: int) -> int | SearchResult:
    """The number of lanes to play next, or the result. ``passes``: at most, of one number."""
    kept, missed = _border(seen)
    if not seen:
        return min(START, most)
    if missed is None:
        assert kept is not None
        if kept < most:
            return min(2 * kept, most)
    elif kept is None:
        if missed > 1:
            return missed // 2
    elif missed - kept > max(1, RESOLUTION * kept):
        middle = round(math.sqrt(kept * missed))
        return min(max(middle, kept + 1), missed - 1)
    ends = [n for n in (kept, missed) if n is not None]
    open_ends = [
        n
        for n in ends
        if (seen[n].verdict == "undecided" or seen[n].invalid) and seen[n].passes < passes
    ]
    if open_ends:
        return min(open_ends, key=lambda n: (seen[n].passes, n))
    return _result(seen, kept, missed)


def _border(seen: Mapping[int, Seen]) -> tuple[int | None, int | None]:
    """The largest number that keeps below the smallest one that misses, and that one.

    A number that can't be measured counts as one that misses: what lies beyond can't be either.
    """
    missed = min((n for n, s in seen.items() if not s.keeps or s.invalid), default=None)
    kept = max((n for n in seen if missed is None or n < missed), default=None)
    return kept, missed


def _result(seen: Mapping[int, Seen], kept: int | None, missed: int | None) -> SearchResult:
    trusted = {n: s for n, s in seen.items() if not s.invalid}
    outcome: Outcome = "found"
    if missed is not None and seen[missed].invalid:
        outcome = "invalid"
    elif missed is None:
        outcome = "all keep"
    elif kept is None:
        outcome = "none keeps"
    shown_to_miss = min((n for n, s in trusted.items() if s.verdict == "misses"), default=None)
    return SearchResult(
        outcome=outcome,
        lanes=kept,
        misses=missed,
        shown_to_keep=max(
            (
                n
                for n, s in trusted.items()
                if s.verdict == "keeps" and (shown_to_miss is None or n < shown_to_miss)
            ),
            default=None,
        ),
        shown_to_miss=shown_to_miss,
    )


def level_of(passes: int) -> float:
    """The level of each look's interval: all looks at a number together miss 5 in 100 at most."""
    return 1 - 0.05 / passes


def combined(verdicts: Mapping[str, tuple[SloVerdict, bool]]) -> tuple[SloVerdict, bool]:
    """Several objectives as one: kept if all are, missed if one is."""
    said = [v for v, _ in verdicts.values()]
    keeps = all(kept for _, kept in verdicts.values())
    if "misses" in said:
        return "misses", keeps
    return ("undecided" if "undecided" in said else "keeps"), keeps
