"""Tokens that the sampling distribution excludes. Design: statistics, section 2.

With top-p or top-k in force, a lossless engine never draws a token outside the kept set, but for
rounding at its edge, which stock shows as well: its share is the baseline.
"""

import numpy as np

from loadjudge.gates.clusters import Sums, difference, sums
from loadjudge.gates.gaps import timed, unscored
from loadjudge.gates.verdict import Words, gap_gate
from loadjudge.record.evaluation import Gate, Support
from loadjudge.record.values import Arm, RunRecord
from loadjudge.score.bootstrap import LEVEL

WORDS = Words(
    what="share of tokens outside the sampling distribution's support",
    less="fewer tokens lie outside the sampling distribution's support than in stock's replies",
    same="tokens lie outside the sampling distribution's support as rarely as in stock's replies",
    more="more tokens lie outside the sampling distribution's support than in stock's replies",
    unit=" a token",
    digits=5,
)


def check(run: RunRecord, bound: float | None, level: float = LEVEL) -> tuple[Gate, Support | None]:
    """The gap of the shares outside support must lie within ± bound."""
    arms = {arm: _sums(run, arm) for arm in ("stock", "candidate")}
    candidate, stock = arms["candidate"], arms["stock"]
    if not candidate.n or not stock.n:
        return unscored(run), None
    gap = difference(candidate, stock)
    low, high = gap.interval(level)
    figures = Support(
        gap=gap.value,
        se=gap.se,
        low=low,
        high=high,
        candidate=candidate.mean,
        stock=stock.mean,
        tokens=candidate.n,
    )
    return judge(figures, bound, level), figures


def judge(figures: Support, bound: float | None, level: float = LEVEL) -> Gate:
    return gap_gate(WORDS, figures.gap, figures.low, figures.high, bound, figures.tokens, level)


def _sums(run: RunRecord, arm: Arm) -> Sums:
    """Tokens outside support, with the error of a share that may be zero.

    None seen among n tokens is no proof that there are none: Agresti and Coull's share, (k + 2)
    / (n + 4), puts the end of the interval near 3 / n, as the rule of three has it.
    """
    replies = [r for r in timed(run) if r.arm == arm]
    one = sums(
        (r.session, float(len(r.terms.q)), float((r.terms.q <= 0).sum()), 0.0) for r in replies
    )
    n = one.n
    share = (one.total.sum() + 2) / (n + 4)
    return Sums(one.sessions, one.tokens, one.total, np.asarray(one.tokens * share * (1 - share)))
