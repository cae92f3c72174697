"""Gaps between the arms of what the target says of each token: plain means, and excesses.

Design: statistics, section 2. An excess has mean zero at every token of a lossless engine,
whatever the session is about; a plain mean has not, so its gap needs far more tokens.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from loadjudge.gates.clusters import Sums, difference, mean, sums
from loadjudge.gates.verdict import Words, gap_gate, not_available
from loadjudge.record.evaluation import ExcessGap, Gap, Gate
from loadjudge.record.values import ARMS, Arm, Floats, RunRecord, ScoredReply, Terms
from loadjudge.score.bootstrap import LEVEL

GREEDY = "greedy"  # what a scored greedy reply has for its workload; its round is its number

Statistic = Callable[[Terms], Floats]

_IMPOSSIBLE = 10.0  # nats
_WEIGHTIEST = 10.0


@dataclass(frozen=True, slots=True)
class Excess:
    """A statistic of a token as it is, its excess over its expectation under q, and the
    excess's variance under q."""

    plain: Statistic
    excess: Statistic
    variance: Statistic


def _likelihood(t: Terms) -> Floats:
    """A token outside the support counts as 10 nats less likely than expected, no more: under
    losslessness there is none, and a few of −9999 would drown all other tokens."""
    over = t.logp - t.expected
    return np.where(t.q > 0, over, np.maximum(over, -_IMPOSSIBLE))


LIKELIHOOD = Excess(lambda t: t.logp, _likelihood, lambda t: t.variance)
FIRST_CHOICE = Excess(
    lambda t: t.is_first, lambda t: t.is_first - t.q_first, lambda t: t.q_first * (1 - t.q_first)
)


def _weight(t: Terms) -> Floats:
    """Of a token in the score test for a lean towards the first choice.

    Forcing it in a small share ε multiplies q(y) by 1 − ε + ε [y first]/q(first), whose log has
    the slope [y first]/q(first) − 1 at ε = 0: the excess over q(first). Where the first choice is
    all but sure a forced one tells little. Bounded, lest a few flat tokens outweigh all others.
    """
    return 1 / np.maximum(t.q_first, 1 / _WEIGHTIEST)


FIRST_CHOICE_LEAN = Excess(
    lambda t: t.is_first,
    lambda t: _weight(t) * (t.is_first - t.q_first),
    lambda t: _weight(t) ** 2 * t.q_first * (1 - t.q_first),
)
END = Excess(lambda t: t.is_end, lambda t: t.is_end - t.q_end, lambda t: t.q_end * (1 - t.q_end))
COPY = Excess(
    lambda t: t.is_copy, lambda t: t.is_copy - t.q_copy, lambda t: t.q_copy * (1 - t.q_copy)
)


def plain_gap(replies: Iterable[ScoredReply], what: Excess, level: float = LEVEL) -> Gap | None:
    """The gap of the plain means, as the seed arena's pages have it. None: an arm has no token."""
    arms = arms_of(replies, what, plain=True)
    if arms is None:
        return None
    gap = difference(arms["candidate"], arms["stock"])
    low, high = gap.interval(level)
    return Gap(
        gap=gap.value,
        se=gap.se,
        candidate=arms["candidate"].mean,
        stock=arms["stock"].mean,
        low=low,
        high=high,
        tokens=arms["candidate"].n,
    )


def excess_gap(
    replies: Iterable[ScoredReply], what: Excess, level: float = LEVEL
) -> ExcessGap | None:
    """The gap of the excess means, and each arm's against its known zero."""
    replies = tuple(replies)
    arms = arms_of(replies, what)
    if arms is None:
        return None
    gap = difference(arms["candidate"], arms["stock"])
    low, high = gap.interval(level)
    own = {arm: mean(arms[arm]).interval(level) for arm in ARMS}
    return ExcessGap(
        gap=gap.value,
        se=gap.se,
        low=low,
        high=high,
        candidate=arms["candidate"].mean,
        candidate_low=own["candidate"][0],
        candidate_high=own["candidate"][1],
        stock=arms["stock"].mean,
        stock_low=own["stock"][0],
        stock_high=own["stock"][1],
        tokens=arms["candidate"].n,
        sessions=gap.clusters,
        exact=all(r.exact for r in replies),
    )


def judge_gap(
    words: Words,
    plain: Gap,
    excess: ExcessGap | None,
    plain_bound: float | None,
    excess_bound: float | None,
    level: float = LEVEL,
) -> Gate:
    """The verdict from the excess gap where it is exact, else from the plain one.

    A task that has only the plain limit, as the seed arena's have, means it for both. An
    approximate excess never decides: what it is off by may differ between the arms.
    """
    if excess is not None and excess.exact:
        bound = plain_bound if excess_bound is None else excess_bound
        gate = gap_gate(words, excess.gap, excess.low, excess.high, bound, excess.tokens, level)
        if bound is None or (excess.stock_low <= bound and excess.stock_high >= -bound):
            return gate
        remark = (
            f"; stock itself is {excess.stock:+.4f} off what the scorer expects of it, so the "
            f"scorer is not the target that it serves"
        ).replace("-", "−")
        return gate.model_copy(update={"sentence": gate.sentence + remark})
    low, high = interval_of(plain, level)
    gate = gap_gate(words, plain.gap, low, high, plain_bound, plain.tokens, level)
    if plain_bound is None and excess_bound is not None:
        why = "the scorer's terms are not exact, and this task sets no limit for the plain gap"
        return gate.model_copy(update={"sentence": f"{gate.sentence}: {why}"})
    return gate


def interval_of(gap: Gap, level: float) -> tuple[float, float]:
    """The gap's recorded interval; a seed's record has none, and its pages print ± 1.96 errors."""
    if gap.low is not None and gap.high is not None:
        return gap.low, gap.high
    return gap.gap - Z95 * gap.se, gap.gap + Z95 * gap.se


Z95 = 1.959963984540054


def unscored(run: RunRecord) -> Gate:
    """Why nothing can be said of the replies' tokens."""
    return not_available(run.unavailable.get("likelihood", "no reply was scored"))


def timed(run: RunRecord) -> tuple[ScoredReply, ...]:
    """The scored replies that were timed: greedy ones are not drawn, and have no excess."""
    return tuple(r for r in run.scored if r.workload != GREEDY)


def arms_of(
    replies: Iterable[ScoredReply], what: Excess, *, plain: bool = False
) -> dict[Arm, Sums] | None:
    """Sums of the arms' excesses, or of the plain statistic, whose variance no model tells."""
    rows: dict[Arm, list[tuple[str, float, float, float]]] = {arm: [] for arm in ARMS}
    for r in replies:
        total = float((what.plain if plain else what.excess)(r.terms).sum())
        variance = 0.0 if plain else float(what.variance(r.terms).sum())
        rows[r.arm].append((r.session, float(len(r.terms.logp)), total, variance))
    arms = {arm: sums(rows[arm]) for arm in ARMS}
    return arms if all(a.n for a in arms.values()) else None
