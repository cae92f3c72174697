"""Greedy agreement: how far temperature-0 replies run alike. Design: statistics, section 2.

An engine agrees with itself less than wholly, as the shape of a batch changes its logits; so
stock against stock stands beside the figure as its baseline.
"""

from collections.abc import Sequence

import numpy as np

from loadjudge.gates.verdict import not_available
from loadjudge.record.evaluation import Agreement, Gate
from loadjudge.record.values import GreedyReply, RunRecord


def share_before_difference(a: Sequence[object], b: Sequence[object]) -> float:
    """The share of the longer reply before the first difference; 1 for two empty replies."""
    longer = max(len(a), len(b))
    if not longer:
        return 1.0
    same = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        same += 1
    return same / longer


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
    agreement = Agreement(candidate=figure, stock=baseline, replies=len(sessions))
    measured = (
        f"{len(sessions)} greedy replies follow stock's for {figure:.1%} of their length before "
        f"the first difference; stock follows itself for {baseline:.1%}"
    )
    if floor is None:
        sentence = f"{measured}; this task sets no limit"
        return Gate(verdict="n/a", sentence=sentence, figure=figure), agreement
    gate = Gate(
        verdict="pass" if figure >= floor else "fail",
        sentence=f"{measured}; at least {floor:.1%} is asked",
        figure=figure,
        bound_low=floor,
    )
    return gate, agreement


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
