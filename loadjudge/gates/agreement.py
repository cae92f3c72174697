"""Greedy agreement: how far temperature-0 replies run alike. Design: statistics, section 2.

An engine agrees with itself less than wholly, as the shape of a batch changes its logits; so
stock against stock stands beside the figure as its baseline. Where the greedy replies were scored
too, a first difference can be told from a near-tie: at that place both tokens have the same
history, and the target finds them about equally likely.
"""

from collections.abc import Sequence

import numpy as np

from loadjudge.gates.gaps import GREEDY
from loadjudge.gates.verdict import not_available
from loadjudge.record.evaluation import Agreement, Gate
from loadjudge.record.values import GreedyReply, RunRecord, ScoredReply

NEAR_TIE = 0.25  # nats: two steps of bfloat16 for logits of 16 to 32


def share_before_difference(a: Sequence[object], b: Sequence[object]) -> float:
    """The share of the longer reply before the first difference; 1 for two empty replies."""
    longer = max(len(a), len(b))
    if not longer:
        return 1.0
    return first_difference(a, b) / longer


def first_difference(a: Sequence[object], b: Sequence[object]) -> int:
    """The place of the first difference; the shorter's length where it begins the longer."""
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return i
    return min(len(a), len(b))


def check(run: RunRecord, floor: float | None) -> tuple[Gate, Agreement | None]:
    """Mean share before the first difference from stock's first reply; must reach the floor."""
    reference = {g.session: g for g in run.greedy if (g.arm, g.round) == ("stock", 0)}
    again = {g.session: g for g in run.greedy if (g.arm, g.round) == ("stock", 1)}
    candidate = {g.session: g for g in run.greedy if g.arm == "candidate"}
    sessions = [s for s in reference if s in candidate and s in again]
    if not sessions:
        return not_available("no greedy reply was read on both arms"), None
    figure = _mean(reference, candidate, sessions)
    baseline = _mean(reference, again, sessions)
    ties = near_ties(run, reference, candidate, sessions)
    agreement = Agreement(
        candidate=figure,
        stock=baseline,
        replies=len(sessions),
        differences=len(ties) if ties is not None else None,
        near_ties=float(np.mean(ties)) if ties else None,
    )
    return judge(agreement, floor), agreement


def judge(agreement: Agreement, floor: float | None) -> Gate:
    """The gate from its figures."""
    figure = agreement.candidate
    measured = (
        f"{agreement.replies} greedy replies follow stock's for {figure:.1%} of their length "
        f"before the first difference; stock follows itself for {agreement.stock:.1%}"
    )
    if agreement.near_ties is not None:
        measured += (
            f"; of {agreement.differences} first differences, {agreement.near_ties:.0%} are "
            f"between tokens that the target finds about equally likely"
        )
    if floor is None:
        sentence = f"{measured}; this task sets no limit"
        return Gate(verdict="n/a", sentence=sentence, figure=figure)
    return Gate(
        verdict="pass" if figure >= floor else "fail",
        sentence=f"{measured}; at least {floor:.1%} is asked",
        figure=figure,
        bound_low=floor,
    )


def near_ties(
    run: RunRecord,
    stock: dict[str, GreedyReply],
    candidate: dict[str, GreedyReply],
    sessions: Sequence[str],
) -> list[bool] | None:
    """For each first difference, whether it is between near-tied tokens.

    None where no greedy reply was scored; replies that differ in length alone are left out.
    """
    scored: dict[tuple[str, str], ScoredReply] = {
        (r.arm, r.session): r for r in run.scored if r.workload == GREEDY and r.number == 0
    }
    if not scored:
        return None
    ties: list[bool] = []
    for s in sessions:
        ours, theirs = scored.get(("candidate", s)), scored.get(("stock", s))
        a, b = candidate[s].token_ids, stock[s].token_ids
        if ours is None or theirs is None or a is None or b is None:
            continue
        at = first_difference(a, b)
        if at < min(len(a), len(b), len(ours.terms.logp), len(theirs.terms.logp)):
            ties.append(bool(abs(ours.terms.logp[at] - theirs.terms.logp[at]) <= NEAR_TIE))
    return ties


def _mean(
    reference: dict[str, GreedyReply], other: dict[str, GreedyReply], sessions: list[str]
) -> float:
    shares = []
    for s in sessions:
        a, b = reference[s], other[s]
        ids = a.token_ids is not None and b.token_ids is not None
        shares.append(
            share_before_difference(a.token_ids or (), b.token_ids or ())
            if ids
            else share_before_difference(a.content, b.content)
        )
    return float(np.mean(shares))
