"""Whether the excesses are zero, as they are at every token of a lossless engine.

The bounds on the gaps allow for what an honest engine may be off by; this test allows for chance
alone. It sees what is too small for the bounds, with the fewest tokens: stock's own error is not
in it, nor is what sessions are about. Four statistics at once: likelihood, first choices (each
weighted by how much it tells of a lean towards them), ends, and how often a reply takes what a
prompt lookup proposes, which too easy an acceptance raises.
The p-value is the smallest of the four times four (Bonferroni), however they hang together.
"""

from collections.abc import Mapping

from loadjudge.gates.clusters import difference, mean
from loadjudge.gates.gaps import COPY, END, FIRST_CHOICE_LEAN, LIKELIHOOD, Excess, arms_of, timed
from loadjudge.gates.gaps import unscored as not_scored
from loadjudge.gates.verdict import number, p_gate
from loadjudge.record.evaluation import ExcessFigure, ExcessTest, Gate
from loadjudge.record.values import RunRecord

EXCESSES: Mapping[str, Excess] = {
    "likelihood": LIKELIHOOD,
    "first choice": FIRST_CHOICE_LEAN,
    "end": END,
    "copy": COPY,
}

_UNITS = {"likelihood": " nats a token", "first choice": " a token, weighted,"}

# What it means for each to be below zero, and above.
_CLAUSES = {
    "likelihood": (
        "replies' tokens are less likely than the target's own draws are",
        "replies' tokens are more likely than the target's own draws are",
    ),
    "first choice": (
        "replies take the target's first choice less often than the target would",
        "replies take the target's first choice more often than the target would",
    ),
    "end": (
        "replies end less often than the target would end them",
        "replies end more often than the target would end them",
    ),
    "copy": (
        "replies take what a prompt lookup proposes less often than the target would",
        "replies take what a prompt lookup proposes more often than the target would",
    ),
}


def check(run: RunRecord, limit: float | None) -> tuple[Gate, ExcessTest | None]:
    """The p-value must reach ``limit``."""
    figures = measure(run)
    return (not_scored(run), None) if figures is None else (judge(figures, limit), figures)


def measure(run: RunRecord) -> ExcessTest | None:
    """The test's figures; None where an arm has no scored token."""
    replies = timed(run)
    found, tokens = {}, 0
    for name, what in EXCESSES.items():
        arms = arms_of(replies, what)
        if arms is None:
            return None
        candidate, stock = mean(arms["candidate"]), mean(arms["stock"])
        gap = difference(arms["candidate"], arms["stock"])
        tokens = arms["candidate"].n
        found[name] = ExcessFigure(
            candidate=candidate.value,
            p_candidate=candidate.p_value,
            stock=stock.value,
            p_stock=stock.p_value,
            gap=gap.value,
            p_gap=gap.p_value,
        )
    each = found.values()
    return ExcessTest(
        figures=found,
        p_candidate=_of_all([f.p_candidate for f in each]),
        p_stock=_of_all([f.p_stock for f in each]),
        p_gap=_of_all([f.p_gap for f in each]),
        tokens=tokens,
        exact=all(r.exact for r in replies),
    )


def _of_all(p: list[float]) -> float:
    return min(1.0, len(p) * min(p))


def judge(test: ExcessTest, limit: float | None) -> Gate:
    """Zero counts against the candidate only where it is known to hold for stock: where the terms
    are exact, and stock's own excesses are zero. Elsewhere the arms are held to each other."""
    held = test.exact and (limit is None or test.p_stock >= limit)
    p = test.p_candidate if held else test.p_gap
    worst = min(
        test.figures,
        key=lambda name: test.figures[name].p_candidate if held else test.figures[name].p_gap,
    )
    off = test.figures[worst].candidate if held else test.figures[worst].gap
    unit = _UNITS.get(worst, " a token")
    against = "its known zero" if held else "stock"
    measured = (
        f"{worst} {number(off, 5)}{unit} off {against}, p = {p:.2g} for {len(test.figures)} "
        f"statistics, {test.tokens:,} tokens"
    )
    why = "stock's own excesses are not zero" if test.exact else "the terms are not exact"
    return p_gate(
        p,
        limit,
        measured,
        what="what tokens are beyond what the target expects",
        same="tokens are as the target expects them, as far as their means show",
        off=_CLAUSES[worst][off > 0],
        not_held="" if held else why,
    )
