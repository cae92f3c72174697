"""Reply lengths: candidate over stock, for each workload. Design: statistics, section 2.

A candidate that ends its replies early is quick for nothing. Two figures tell, and the gate joins
them:

- the **ratio** of mean reply tokens, for each workload, within 1 ± margin. It needs no scorer,
  and counts whatever makes a reply longer or shorter, padding and cuts included; but replies'
  lengths vary much, so it needs many of them.
- the **ends**: how much oftener a token ends its reply than the target would have it end there,
  within ± ends_bound a token. It needs scored replies and few of them.

One that fails fails the gate. It passes when each part that has a limit passes; where none fails
and one is open, it is inconclusive.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from loadjudge.gates.gaps import END, excess_gap, timed
from loadjudge.gates.verdict import (
    Words,
    gap_gate,
    growth,
    joined,
    not_available,
    percent,
    within,
    would_take,
)
from loadjudge.record.evaluation import ExcessGap, Gate, GateVerdict, LengthRatio
from loadjudge.record.values import PassRecord, RunRecord
from loadjudge.score.bootstrap import (
    LEVEL,
    Floats,
    interval,
    log_ratio,
    session_weights,
    standard_error,
)

FEWEST = 8  # sessions: from so many on, intervals are known to cover (bench/coverage.py)

ENDS = Words(
    what="share of tokens that end their reply, less what the target expects",
    less="replies end less often than the target would end them",
    same="replies end as often as the target would end them",
    more="replies end more often than the target would end them",
    unit=" a token",
    digits=5,
)


def length_ratio(
    candidate: Sequence[PassRecord], stock: Sequence[PassRecord], seed: int, level: float = LEVEL
) -> LengthRatio | None:
    """Ratio of mean reply tokens with its interval over sessions, on the log scale.

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
    resampled = figure(weights)
    low, high = interval(float(centre[0]), float(se[0]), *resampled, len(sessions), level)
    return LengthRatio(
        ratio=float(np.exp(centre[0])),
        low=float(np.exp(low)),
        high=float(np.exp(high)),
        sessions=len(sessions),
    )


def said_range(ratio: LengthRatio) -> str:
    """The interval in words; too few sessions give one that has no end."""
    if not np.isfinite(ratio.high):
        return "no interval: too few sessions"
    return f"{ratio.low:.3f} to {ratio.high:.3f}"


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
    run: RunRecord,
    margin: float | None,
    seed: int,
    *,
    ends: ExcessGap | None = None,
    ends_bound: float | None = None,
    level: float = LEVEL,
) -> tuple[Gate, dict[str, LengthRatio] | None]:
    """The gate and the workloads' ratios. ``ends`` are ``measure_ends``'s."""
    ratios: dict[str, LengthRatio] = {}
    tokens: dict[str, int] = {}
    for w in run.workloads:
        candidate, stock = run.of(w, "candidate"), run.of(w, "stock")
        ratio = length_ratio(candidate, stock, seed, level)
        if ratio is not None:
            ratios[w] = ratio
            tokens[w] = sum(p.tokens for one in candidate for p in one.measured)
    if not ratios:
        return not_available("no reply was counted on both arms"), None
    gate = judge(ratios, margin, tokens, ends=ends, ends_bound=ends_bound, level=level)
    return gate, ratios


def measure_ends(run: RunRecord, level: float = LEVEL) -> ExcessGap | None:
    """How much oftener a token ends its reply than the target would; None: nothing is scored."""
    return excess_gap(timed(run), END, level)


def judge(
    ratios: dict[str, LengthRatio],
    margin: float | None,
    tokens: dict[str, int] | None = None,
    *,
    ends: ExcessGap | None = None,
    ends_bound: float | None = None,
    level: float = LEVEL,
) -> Gate:
    """The gate from its figures. Its own figure is the ratio of the workload that decides."""
    lengths = _ratios(ratios, margin, tokens or {}, level)
    if ends is None or not ends.exact or ends_bound is None:
        return lengths
    ended = gap_gate(ENDS, ends.gap, ends.low, ends.high, ends_bound, ends.tokens, level)
    missing = [g.missing_tokens for g in (lengths, ended) if g.missing_tokens is not None]
    growths = [g.growth for g in (lengths, ended) if g.growth is not None]
    return lengths.model_copy(
        update={
            "verdict": joined((lengths.verdict, ended.verdict)),
            "sentence": f"{lengths.sentence}. {ended.sentence[0].upper()}{ended.sentence[1:]}",
            "missing_tokens": max(missing, default=None),
            "growth": max(growths, default=None),
        }
    )


def _ratios(
    ratios: dict[str, LengthRatio], margin: float | None, tokens: dict[str, int], level: float
) -> Gate:
    """A workload that fails fails the gate; shown is the worst workload."""
    worst = max(ratios, key=lambda w: abs(np.log(ratios[w].ratio)))
    r = ratios[worst]
    listed = ", ".join(f"{w} {x.ratio:.3f} ({said_range(x)})" for w, x in ratios.items())
    measured = f"replies are this many times as long as stock's: {listed}"
    if margin is None:
        return Gate(
            verdict="n/a",
            sentence=f"{measured}; this task sets no limit",
            figure=r.ratio,
            low=r.low,
            high=r.high,
        )
    few = [w for w, x in ratios.items() if x.sessions is not None and x.sessions < FEWEST]
    verdicts: dict[str, GateVerdict] = {
        w: "inconclusive" if w in few else within(x.low, x.high, 1 - margin, 1 + margin)
        for w, x in ratios.items()
    }
    verdict = joined(verdicts.values())
    factors: dict[str, float] = {}
    if verdict != "pass":
        worst = next(w for w in verdicts if verdicts[w] == verdict)
    if verdict == "inconclusive":
        for w, x in ratios.items():
            factor = growth(x.ratio, x.low, x.high, 1 - margin, 1 + margin)
            if verdicts[w] == verdict and factor is not None and w not in few:
                factors[w] = factor
        worst = max(factors, key=lambda w: factors[w], default=worst)
    r = ratios[worst]
    most = factors.get(worst)
    missing = round(tokens[worst] * (most - 1)) if most and worst in tokens else None
    where = f" at {worst}" if most and len(ratios) > 1 else ""
    if few:
        where += f"; fewer than {FEWEST} sessions tell too little at {', '.join(few)}"
    return Gate(
        verdict=verdict,
        sentence=f"{measured}; limit 1 ± {margin:g} at {percent(level)}"
        f"{would_take(most, missing)}{where}",
        figure=r.ratio,
        low=r.low,
        high=r.high,
        bound_low=1 - margin,
        bound_high=1 + margin,
        missing_tokens=missing,
        growth=most,
    )
