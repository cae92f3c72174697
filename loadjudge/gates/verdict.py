"""Three-valued verdicts from an interval and its bounds. Pure."""

import math

from loadjudge.record.evaluation import Gate, GateVerdict


def within(low: float, high: float, bound_low: float, bound_high: float) -> GateVerdict:
    """pass if [low, high] lies inside the bounds, fail if wholly outside, else inconclusive."""
    if bound_low <= low and high <= bound_high:
        return "pass"
    if high < bound_low or low > bound_high:
        return "fail"
    return "inconclusive"


def missing_tokens(
    tokens: int, figure: float, low: float, high: float, bound_low: float, bound_high: float
) -> int | None:
    """About how many more tokens would decide an inconclusive gate.

    The interval shrinks with the root of the tokens; it is decided when its half width is the
    figure's distance to the nearer bound. None where the figure lies on the bound, and where no
    interval is known.
    """
    half = max(high - figure, figure - low)
    distance = min(abs(figure - bound_low), abs(figure - bound_high))
    if distance <= 0 or half <= distance or not math.isfinite(half):
        return None
    return round(tokens * ((half / distance) ** 2 - 1))


def not_available(why: str) -> Gate:
    """A gate that can't be had here; it never counts as passed."""
    return Gate(verdict="n/a", sentence=why)
