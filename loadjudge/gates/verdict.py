"""Three-valued verdicts from an interval and its bounds, and the sentences that say them. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from loadjudge.record.evaluation import Gate, GateVerdict
from loadjudge.score.bootstrap import LEVEL

_HOPELESS = 1e4  # half widths of the distance: no run would ever decide it; also NaN and infinity


def within(low: float, high: float, bound_low: float, bound_high: float) -> GateVerdict:
    """pass if [low, high] lies inside the bounds, fail if wholly outside, else inconclusive."""
    if bound_low <= low and high <= bound_high:
        return "pass"
    if high < bound_low or low > bound_high:
        return "fail"
    return "inconclusive"


def joined(verdicts: Iterable[GateVerdict]) -> GateVerdict:
    """Of several parts: one that fails fails all, one that is open leaves all open."""
    each = set(verdicts)
    order: tuple[GateVerdict, ...] = ("fail", "inconclusive", "pass")
    return next((verdict for verdict in order if verdict in each), "n/a")


def growth(
    figure: float, low: float, high: float, bound_low: float, bound_high: float
) -> float | None:
    """The factor by which the tokens would have to grow to decide an inconclusive gate.

    The interval shrinks with the root of the tokens; it is decided when its half width is the
    figure's distance to the nearer bound. None where the figure lies on the bound, where no
    interval is known, and where no run would ever be long enough.
    """
    half = max(high - figure, figure - low)
    distance = min(abs(figure - bound_low), abs(figure - bound_high))
    if distance <= 0 or half <= distance or not half / distance < _HOPELESS:
        return None
    return float((half / distance) ** 2)


def missing_tokens(
    tokens: int, figure: float, low: float, high: float, bound_low: float, bound_high: float
) -> int | None:
    """About how many more tokens would decide an inconclusive gate. See ``growth``."""
    factor = growth(figure, low, high, bound_low, bound_high)
    return None if factor is None else round(tokens * (factor - 1))


def not_available(why: str) -> Gate:
    """A gate that can't be had here; it never counts as passed."""
    return Gate(verdict="n/a", sentence=why)


@dataclass(frozen=True, slots=True)
class Words:
    """How a gap is said. ``less``, ``same`` and ``more`` are whole clauses."""

    what: str  # a noun: the gap of what
    less: str
    same: str
    more: str
    unit: str  # follows the number: " nats a token"
    digits: int = 4


def number(value: float, digits: int = 4) -> str:
    """A signed figure with a real minus: ``−0.0412``."""
    return f"{value:+.{digits}f}".replace("-", "−")


def percent(level: float) -> str:
    return f"{100 * level:.4g} %"


def gap_gate(
    words: Words,
    gap: float,
    low: float,
    high: float,
    bound: float | None,
    tokens: int | None,
    level: float = LEVEL,
) -> Gate:
    """The gate of a difference that must lie within ± ``bound``; without one it shows figures.

    ``tokens``: of the candidate, or None where the record doesn't tell how many there were.
    """
    measured = (
        f"{number(gap, words.digits)}{words.unit}, {percent(level)} interval "
        f"{number(low, words.digits)} to {number(high, words.digits)}"
    )
    if bound is None:
        return Gate(
            verdict="n/a",
            sentence=f"{words.what}, against stock: {measured}; this task sets no limit",
            figure=gap,
            low=low,
            high=high,
        )
    verdict = within(low, high, -bound, bound)
    factor = growth(gap, low, high, -bound, bound) if verdict == "inconclusive" else None
    missing = round(tokens * (factor - 1)) if tokens and factor else None
    clause = words.same
    if verdict == "fail":
        clause = words.less if gap < 0 else words.more
    elif verdict == "inconclusive":
        clause = f"it is not decided whether {words.same}"
    return Gate(
        verdict=verdict,
        sentence=f"{clause}: {measured}, limit {bound:g}{would_take(factor, missing)}",
        figure=gap,
        low=low,
        high=high,
        bound_low=-bound,
        bound_high=bound,
        missing_tokens=missing,
        growth=factor,
    )


def would_take(factor: float | None, missing: int | None) -> str:
    """What an undecided gate would have taken, as the end of its sentence."""
    if missing is not None:
        return f"; about {missing:,} more tokens an arm would decide it"
    if factor is not None:
        return f"; {times(factor)} the tokens would decide it"
    return ""


def times(factor: float) -> str:
    """``3.49 times``, ``1,107 times``."""
    return f"{factor:,.0f} times" if factor >= 100 else f"{factor:.3g} times"


def p_gate(
    p: float, limit: float | None, measured: str, *, what: str, same: str, off: str, not_held: str
) -> Gate:
    """The gate of a p-value that must reach ``limit``; without one it shows figures.

    ``what``, ``same`` and ``off`` are clauses: of no limit, of a pass and of a fail. ``not_held``:
    why the candidate is held against stock's figures only; empty where it isn't.
    """
    if limit is None:
        sentence = f"{what}: {measured}; this task sets no limit"
        return Gate(verdict="n/a", sentence=sentence, figure=p)
    ok = p >= limit
    if not_held:
        measured += f"; {not_held}, so the candidate's are held against stock's only"
    return Gate(
        verdict="pass" if ok else "fail",
        sentence=f"{same if ok else off}: {measured}, limit {limit:g}",
        figure=p,
        bound_low=limit,
    )
