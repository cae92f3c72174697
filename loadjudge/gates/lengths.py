"""Reply lengths: candidate over stock, for each workload. Design: statistics, section 2.

A candidate that ends its replies early is quick for nothing.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from loadjudge.gates.verdict import missing_tokens, not_available, within
from loadjudge.record.evaluation import Gate, GateVerdict, LengthRatio
from loadjudge.record.values import PassRecord, RunRecord
from loadjudge.score.bootstrap import (
    Floats,
    interval,
    log_ratio,
    session_weights,
    standard_error,
)


def length_ratio(
    candidate: Sequence[PassRecord], stock: Sequence[PassRecord], seed: int
) -> LengthRatio | None:
    """Ratio of mean reply tokens with its 95 % interval over sessions, on the log scale.

    Over the sessions that both arms have replies of.
    """
    arms = (candidate, stock)
    sessions = sorted(_counted(candidate) & _counted(stock))
    (tokens_c, turns_c), (tokens_s, turns_s) = (_sums(arm, sessions) for arm in arms)
    if not tokens_c.sum() or not tokens_s.sum():
        return None
    weights = session_weights({"": sessions}, seed)[""]
    once = np.ones((1, len(sessions)))

    def figure(w: Floats) -> tuple[Floats, Floats]:
        log_c, u_c = log_ratio(w, tokens_c, turns_c)
        log_s, u_s = log_ratio(w, tokens_s, turns_s)
        logs, influence = log_c - log_s, u_c - u_s
        return logs, standard_error(w, influence)

    centre, se = figure(once)
    low, high = interval(float(centre[0]), float(se[0]), *figure(weights), len(sessions))
    return LengthRatio(
        ratio=float(np.exp(centre[0])), low=float(np.exp(low)), high=float(np.exp(high))
    )


def _replies(passes: Sequence[PassRecord]) -> Iterator[tuple[str, int]]:
    """The session and the tokens of each measured reply that was counted."""
    for one in passes:
        for play in one.measured:
            for turn in play.turns:
                if turn.error is None and turn.tokens is not None:
                    yield play.session, turn.tokens


def _counted(passes: Sequence[PassRecord]) -> set[str]:
    return {session for session, _ in _replies(passes)}


def _sums(passes: Sequence[PassRecord], sessions: list[str]) -> tuple[Floats, Floats]:
    """Tokens and number of the replies of each session. [sessions] each"""
    column = {s: i for i, s in enumerate(sessions)}
    tokens, turns = np.zeros(len(sessions)), np.zeros(len(sessions))
    for session, n in _replies(passes):
        if session in column:
            tokens[column[session]] += n
            turns[column[session]] += 1
    return tokens, turns


def check(
    run: RunRecord, margin: float | None, seed: int
) -> tuple[Gate, dict[str, LengthRatio] | None]:
    """All workloads' ratios must lie within 1 ± margin at 95 %."""
    ratios: dict[str, LengthRatio] = {}
    tokens: dict[str, int] = {}
    for w in run.workloads:
        candidate, stock = run.of(w, "candidate"), run.of(w, "stock")
        ratio = length_ratio(candidate, stock, seed)
        if ratio is not None:
            ratios[w] = ratio
            tokens[w] = sum(p.tokens for one in candidate for p in one.measured)
    if not ratios:
        return not_available("no reply was counted on both arms"), None
    return judge(ratios, margin, tokens), ratios


def judge(
    ratios: dict[str, LengthRatio], margin: float | None, tokens: dict[str, int] | None = None
) -> Gate:
    """The gate from the ratios: a workload that fails fails it; shown is the worst workload."""
    worst = max(ratios, key=lambda w: abs(np.log(ratios[w].ratio)))
    r = ratios[worst]
    listed = ", ".join(
        f"{w} {x.ratio:.3f} ({x.low:.3f} to {x.high:.3f})" for w, x in ratios.items()
    )
    measured = f"replies are this many times as long as stock's: {listed}"
    if margin is None:
        return Gate(
            verdict="n/a",
            sentence=f"{measured}; this task sets no limit",
            figure=r.ratio,
            low=r.low,
            high=r.high,
        )
    verdicts = {w: within(x.low, x.high, 1 - margin, 1 + margin) for w, x in ratios.items()}
    verdict: GateVerdict = "pass"
    for level in ("inconclusive", "fail"):
        if level in verdicts.values():
            verdict = "fail" if level == "fail" else "inconclusive"
            worst = next(w for w in verdicts if verdicts[w] == level)
    r = ratios[worst]
    missing = None
    if verdict == "inconclusive" and tokens:
        missing = missing_tokens(tokens[worst], r.ratio, r.low, r.high, 1 - margin, 1 + margin)
    return Gate(
        verdict=verdict,
        sentence=f"{measured}; limit 1 ± {margin:g} at 95 %",
        figure=r.ratio,
        low=r.low,
        high=r.high,
        bound_low=1 - margin,
        bound_high=1 + margin,
        missing_tokens=missing,
    )
