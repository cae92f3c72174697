"""What the scored tokens say: their ranks, their excess as evidence grows, the oddest replies."""

from dataclasses import dataclass

import numpy as np

from loadjudge.gates.gaps import timed
from loadjudge.record.evaluation import Evaluation, Ranks
from loadjudge.record.values import ARMS, Arm, RunRecord, ScoredReply, TurnRecord
from loadjudge.report import formats
from loadjudge.report.axes import (
    BAND,
    COLOURS,
    INK,
    LINES,
    MUTED,
    drawing,
    log_axis,
    name_y,
    to_svg,
)
from loadjudge.report.series import Floats

SIZE = (400, 250)  # px
POINTS = 240  # of a growing mean
EXCERPT = 600  # characters of a reply
ENOUGH = 8  # tokens: the excess of a shorter reply is far from normal
Z95 = 1.959964


@dataclass(frozen=True, slots=True)
class OddReply:
    """A reply and how far its tokens lie from what the target expects, in standard errors."""

    arm: Arm
    where: str
    z: float
    tokens: int
    text: str
    cut: bool


def rank_plot(ranks: Ranks) -> str:
    """Both arms' histograms of ranks over a uniform one's; the band holds 95 bars in 100."""
    bins = len(ranks.histogram_candidate)
    edges = np.linspace(0, 1, bins + 1)
    counts: dict[Arm, Floats] = {
        "stock": np.array(ranks.histogram_stock, float),
        "candidate": np.array(ranks.histogram_candidate, float),
    }
    with drawing(*SIZE) as (figure, axes):
        reach = Z95 * np.sqrt((bins - 1) / max(float(counts["candidate"].sum()), 1.0))
        axes.fill_between([0, 1], 1 - reach, 1 + reach, color=BAND, lw=0)
        top = 2 * reach
        for arm in ARMS:
            height = counts[arm] * bins / max(float(counts[arm].sum()), 1.0)
            width, dash = LINES[arm]
            axes.stairs(height, edges, baseline=None, color=COLOURS[arm], lw=width, ls=dash)
            top = max(top, 1.15 * float(np.abs(height - 1).max()))
        axes.set_ylim(max(1 - top, 0), 1 + top)
        axes.set_xlim(0, 1)
        axes.set_xlabel("position in the target's distribution, likeliest first")
        name_y(axes, "tokens, 1 if uniform")
        p = f"p = {formats.small(ranks.p_two_sample)} between the arms"
        return to_svg(figure, "ranks", f"Ranks of the tokens in the target's distribution; {p}.")


def growing_excess(replies: tuple[ScoredReply, ...]) -> tuple[Floats, Floats, Floats]:
    """Tokens so far, the mean excess log-likelihood of them, and its standard error by the
    model: √ΣVar / n. One value a reply, in the order of play."""
    tokens = np.cumsum([len(r.terms.logp) for r in replies], dtype=float)
    totals = np.cumsum([float((r.terms.logp - r.terms.expected).sum()) for r in replies])
    variances = np.cumsum([float(r.terms.variance.sum()) for r in replies])
    n = np.maximum(tokens, 1)
    return tokens, totals / n, np.sqrt(variances) / n


def excess_plot(run: RunRecord, evaluation: Evaluation) -> str | None:
    """Mean excess log-likelihood as tokens come in, with its 95 % interval, both arms."""
    curves = {
        arm: growing_excess(tuple(r for r in timed(run) if r.arm == arm and len(r.terms.logp)))
        for arm in ARMS
    }
    curves = {arm: c for arm, c in curves.items() if len(c[0]) > 1}
    if not curves:
        return None
    said: list[str] = []
    with drawing(*SIZE, left=62) as (figure, axes):
        last = max(float(c[0][-1]) for c in curves.values())
        first = max(min(float(c[0][0]) for c in curves.values()), last / 100)
        log_axis(axes, first, last)
        reach = 0.0
        for arm, (tokens, mean, se) in curves.items():
            kept = _thinned(tokens, first)
            x, y, half = tokens[kept], mean[kept], Z95 * se[kept]
            width, dash = LINES[arm]
            axes.fill_between(x, y - half, y + half, color=COLOURS[arm], alpha=0.16, lw=0)
            axes.plot(x, y, color=COLOURS[arm], lw=width, ls=dash)
            late = x >= last / 30
            reach = max(reach, float((np.abs(y) + half)[late].max(initial=0.0)))
            said.append(
                f"{arm} {mean[-1]:+.4f} ± {Z95 * se[-1]:.4f} after {tokens[-1]:,.0f} tokens"
            )
        limits = evaluation.limits
        bound = limits.excess_likelihood_bound or limits.likelihood_bound
        reach = max(reach, 1.3 * bound) if bound and bound < 4 * reach else reach
        axes.axhline(0, color=INK, lw=1)
        if bound and bound <= reach:
            for y_bound in (-bound, bound):
                axes.axhline(y_bound, color=MUTED, lw=1, ls=":")
        axes.set_ylim(-1.05 * reach or -1, 1.05 * reach or 1)
        axes.set_xlabel("tokens scored (log)")
        name_y(axes, "excess, nats a token")
        return to_svg(
            figure, "excess", f"Excess log-likelihood: {'; '.join(said)}.".replace("-", "−")
        )


def _thinned(tokens: Floats, first: float) -> "np.ndarray[tuple[int, ...], np.dtype[np.intp]]":
    """Indices about evenly spaced on the log axis; the last one stays."""
    marks = np.geomspace(first, float(tokens[-1]), POINTS)
    return np.unique(np.searchsorted(tokens, marks).clip(0, len(tokens) - 1))


def oddest(run: RunRecord, count: int = 6) -> tuple[OddReply, ...]:
    """The candidate's replies that the target would least have drawn, and stock's own oddest.

    By Σ d / √Σ Var over a reply's tokens, which is about standard normal under losslessness.
    """
    long = [r for r in timed(run) if len(r.terms.logp) >= ENOUGH]
    ranked = sorted(
        ((z, r) for r in long if (z := standardised(r)) is not None), key=lambda x: x[0]
    )
    chosen = [x for x in ranked if x[1].arm == "candidate"][:count]
    chosen += [x for x in ranked if x[1].arm == "stock"][:1]
    wanted = {_key(r) for _, r in chosen}
    turns = {key: turn for key, turn in _turns(run) if key in wanted}
    return tuple(_odd(z, r, turns.get(_key(r))) for z, r in chosen)


def standardised(reply: ScoredReply) -> float | None:
    """How far a reply's log-likelihood is from what is expected of it, in standard errors."""
    variance = float(reply.terms.variance.sum())
    if variance <= 0:
        return None
    return float((reply.terms.logp - reply.terms.expected).sum() / np.sqrt(variance))


def _odd(z: float, reply: ScoredReply, turn: TurnRecord | None) -> OddReply:
    text = ""
    if turn is not None:
        calls = "".join(c["name"] + c["arguments"] for c in turn.tool_calls)
        text = turn.reasoning + turn.content + calls
    where = f"{reply.session}, turn {reply.turn + 1}, {reply.workload} pass {reply.number + 1}"
    shown = text[:EXCERPT]
    return OddReply(reply.arm, where, z, len(reply.terms.logp), shown, len(text) > EXCERPT)


_Key = tuple[Arm, str, int, str, int]


def _key(r: ScoredReply) -> _Key:
    return r.arm, r.workload, r.number, r.play, r.turn


def _turns(run: RunRecord) -> list[tuple[_Key, TurnRecord]]:
    return [
        ((p.arm, p.workload, p.number, play.play, turn.index), turn)
        for p in run.passes
        for play in p.measured
        for turn in play.turns
    ]
