"""Speedups and SpecScore. Design: statistics, section 1."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from loadjudge.record.evaluation import Control, Pooled, Ratio, SpecScoreInterval
from loadjudge.record.values import PassRecord, PlayRecord
from loadjudge.score.bootstrap import (
    Floats,
    interval,
    log_ratio,
    session_weights,
    standard_error,
)
from loadjudge.score.noise import PassNoise, mean_noise, pass_noise, widened


@dataclass(frozen=True, slots=True)
class Plays:
    """Tokens T and lane time D of one arm at one workload: [passes, sessions] each."""

    sessions: tuple[str, ...]
    tokens: Floats
    seconds: Floats  # lane time, scripted waits excluded

    def rate(self) -> Floats:
        """Tokens per lane second of each pass: ΣT / ΣD over its sessions. [passes]"""
        total: Floats = self.tokens.sum(1) / self.seconds.sum(1)
        return total


@dataclass(frozen=True, slots=True)
class Pair:
    """Both arms of one workload, the passes paired in order."""

    candidate: Plays
    stock: Plays

    @property
    def playable(self) -> bool:
        """Whether each pass has tokens and time on both arms, so that it has a ratio."""
        sums = [a.sum(1) for p in (self.candidate, self.stock) for a in (p.tokens, p.seconds)]
        return bool(np.all(sums))


@dataclass(frozen=True, slots=True)
class Speed:
    """The figures of all workloads of one comparison."""

    ratios: dict[str, Ratio]
    specscore: float
    pooled: dict[str, Pooled]
    interval: SpecScoreInterval


def counted(one: PassRecord) -> dict[str, PlayRecord]:
    """The measured plays of a pass that count, by name: played to the end, each reply counted.

    A play with a reply of unknown length would bring its time and not its tokens.
    """
    return {
        p.play: p
        for p in one.measured
        if p.outcome == "done" and all(t.tokens is not None for t in p.turns)
    }


def pair(candidate: Sequence[PassRecord], stock: Sequence[PassRecord]) -> Pair:
    """Pass p of one arm beside pass p of the other.

    A play that one arm lost in a pass is left out of that pass on the other arm too; a session
    that so has none left is no cluster.
    """
    couples = []
    for one, other in zip(candidate, stock, strict=False):
        c, s = counted(one), counted(other)
        couples.append([(c[name], s[name]) for name in c if name in s])
    sessions = sorted({c.session for couple in couples for c, _ in couple})
    return Pair(
        plays_of([[c for c, _ in couple] for couple in couples], sessions),
        plays_of([[s for _, s in couple] for couple in couples], sessions),
    )


def plays_of(
    passes: Sequence[Sequence[PlayRecord]], sessions: Sequence[str] | None = None
) -> Plays:
    """The plays of passes as arrays; plays of one session in a pass add up.

    ``sessions``: the columns; by default all that were played.
    """
    if sessions is None:
        sessions = sorted({play.session for plays in passes for play in plays})
    column = {s: i for i, s in enumerate(sessions)}
    tokens = np.zeros((len(passes), len(sessions)))
    seconds = np.zeros_like(tokens)
    for row, plays in enumerate(passes):
        for play in plays:
            tokens[row, column[play.session]] += play.tokens
            seconds[row, column[play.session]] += play.lane_s
    return Plays(tuple(sessions), tokens, seconds)


def geometric_mean(values: Sequence[float]) -> float:
    return float(np.prod(values) ** (1 / len(values)))


def pass_ratio(passes: Sequence[float]) -> Ratio:
    return Ratio(passes=list(passes), ratio=float(np.median(passes)))


def speed(
    pairs: Mapping[str, Pair], seed: int, noise: Mapping[str, PassNoise] | None = None
) -> Speed:
    """Ratios, pooled ratios and SpecScore with their intervals.

    The interval of each pooled ratio resamples sessions, both arms and all passes of a session
    moving together; SpecScore's averages the workloads' resampled logs. What passes of an arm
    differ by comes on top (``noise``, by default from the pairs' own passes).
    """
    noise = noise or {w: _noise_of(p) for w, p in pairs.items()}
    ratios = {w: pass_ratio(list(p.candidate.rate() / p.stock.rate())) for w, p in pairs.items()}
    weights = session_weights({w: p.stock.sessions for w, p in pairs.items()}, seed)
    resampled = {w: _pooled_log(p, weights[w]) for w, p in pairs.items()}
    observed = {w: _pooled_log(p, np.ones((1, len(p.stock.sessions)))) for w, p in pairs.items()}
    pooled: dict[str, Pooled] = {}
    for w, p in pairs.items():
        n = len(p.stock.sessions)
        once = np.ones((1, n))
        of_sessions = interval(
            float(observed[w][0][0]),
            float(standard_error(once, observed[w][1])[0]),
            resampled[w][0],
            standard_error(weights[w], resampled[w][1]),
            n,
        )
        low, high = np.exp(widened(*of_sessions, noise[w]))
        ratio = float(np.exp(observed[w][0][0]))
        pooled[w] = Pooled(ratio=ratio, low=low, high=high, sessions=n)
    specscore = geometric_mean([r.ratio for r in ratios.values()])
    of_sessions = _mean_interval(pairs, weights, observed, resampled)
    low, high = np.exp(widened(*of_sessions, mean_noise(list(noise.values()))))
    return Speed(
        ratios, specscore, pooled, SpecScoreInterval(specscore=specscore, low=low, high=high)
    )


def _noise_of(p: Pair) -> PassNoise:
    arms = [(plays.tokens, plays.seconds) for plays in (p.candidate, p.stock)]
    return pass_noise(arms, [len(tokens) for tokens, _ in arms])


Logs = tuple[Floats, Floats]  # a log ratio and the sessions' influences on it


def _pooled_log(p: Pair, weights: Floats) -> Logs:
    c, s = p.candidate, p.stock
    log_c, u_c = log_ratio(weights, c.tokens.sum(0), c.seconds.sum(0))
    log_s, u_s = log_ratio(weights, s.tokens.sum(0), s.seconds.sum(0))
    return log_c - log_s, u_c - u_s


def _mean_interval(
    pairs: Mapping[str, Pair],
    weights: Mapping[str, Floats],
    observed: Mapping[str, Logs],
    resampled: Mapping[str, Logs],
) -> tuple[float, float]:
    """The interval of the workloads' mean log ratio: of log SpecScore.

    Its standard error adds up what a session does to every workload that plays it.
    """
    sessions = sorted({s for p in pairs.values() for s in p.stock.sessions})
    column = {s: i for i, s in enumerate(sessions)}

    def spread(logs: Mapping[str, Logs]) -> Floats:
        rows = next(iter(logs.values()))[1].shape[0]
        influence, count = np.zeros((rows, len(sessions))), np.zeros((rows, len(sessions)))
        for w, p in pairs.items():
            columns = [column[s] for s in p.stock.sessions]
            n = len(columns)
            influence[:, columns] += logs[w][1] * np.sqrt(n / max(n - 1, 1)) / len(pairs)
            count[:, columns] = weights[w] if rows > 1 else 1.0
        return np.asarray(np.sqrt((count * influence**2).sum(1)))

    centres = np.mean([logs for logs, _ in resampled.values()], axis=0)
    centre = float(np.mean([logs[0] for logs, _ in observed.values()]))
    clusters = min(len(p.stock.sessions) for p in pairs.values())
    return interval(centre, float(spread(observed)[0]), centres, spread(resampled), clusters)


def control(stock: Mapping[str, Sequence[PassRecord]], seed: int) -> Control | None:
    """The A/A control: the stock passes of a run, every second one over each of its neighbours.

    Of S C C S S C, whose stock passes hold the places 0, 3 and 4, the second is divided by the
    first and by the third. A steady drift of d a place then shows as d in the control's ratio,
    just what it leaves in the A/B's (pairs d, −d, d), and does not cancel wholly in either; with
    an even number of passes it does in the A/B. None where a workload has fewer than two stock
    passes, or a pass no play that its neighbour finished too.
    """
    pairs: dict[str, Pair] = {}
    noise: dict[str, PassNoise] = {}
    for workload, passes in stock.items():
        odd = range(1, len(passes), 2)
        neighbours = [(i, j) for i in odd for j in (i - 1, i + 1) if j < len(passes)]
        pairs[workload] = pair(
            [passes[i] for i, _ in neighbours], [passes[j] for _, j in neighbours]
        )
        if not neighbours or not pairs[workload].playable:
            return None
        plays = pair(passes, passes).stock
        noise[workload] = pass_noise(
            [(plays.tokens, plays.seconds)], [len(odd), len(passes) - len(odd)]
        )
    if not pairs:
        return None
    figures = speed(pairs, seed, noise)
    specscore = geometric_mean([p.ratio for p in figures.pooled.values()])
    return Control(
        ratios=figures.ratios,
        pooled=figures.pooled,
        specscore=SpecScoreInterval(
            specscore=specscore, low=figures.interval.low, high=figures.interval.high
        ),
    )
