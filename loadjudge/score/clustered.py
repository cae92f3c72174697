"""Shares and quantiles of turns with sessions as clusters. Pure functions over arrays.

Turns of one session share its topic and its length, so n turns say less than n independent ones.
How much less shows in how the sessions differ: the effective number of turns. A share's interval
is Clopper and Pearson's with that number (Korn and Graubard 1998, "Confidence intervals for
proportions with small expected number of positive counts estimated from survey data"); a
quantile's holds all values whose share at or below them is compatible with it (Woodruff 1952).
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from loadjudge.record.evaluation import Latency, Quantile
from loadjudge.score.bootstrap import LEVEL, Floats

Ints = np.ndarray[tuple[int, ...], np.dtype[np.intp]]


@dataclass(frozen=True, slots=True)
class Sample:
    """Values with their weights, each of a turn, and of a session: one entry a value.

    ``turns``: how many turns they come from; an inter-token latency is one of many of its turn.
    """

    values: Floats
    weights: Floats
    sessions: Ints
    turns: int


@dataclass(frozen=True, slots=True)
class Share:
    """A share with its interval."""

    share: float
    low: float
    high: float


def share_interval(
    good: Floats, total: Floats, turns: int, level: float = LEVEL, at: float | None = None
) -> Share:
    """The share Σ good / Σ total and its interval; ``good`` and ``total`` are one entry a session.

    ``at``: the share to put the interval around, by default the one that was seen. Never fewer
    than the turns' own binomial width, so that sessions that happen to agree don't feign
    certainty. With one session there is no interval: 0 to 1.
    """
    whole = float(total.sum())
    share = float(good.sum()) / whole
    centre = share if at is None else at
    clusters = len(total)
    if clusters < 2:
        return Share(share, 0.0, 1.0)
    spread = good - share * total
    variance = float((spread**2).sum()) * clusters / (clusters - 1) / whole**2
    n = float(turns)
    if variance > 0 and 0 < share < 1:
        n = min(n, share * (1 - share) / variance)
    tail = 0.5 - level / 2
    fewer = stats.t.ppf(tail, max(turns - 1, 1)) / stats.t.ppf(tail, clusters - 1)
    n = max(min(n * float(fewer) ** 2, turns), 1.0)
    k = centre * n
    low = float(stats.beta.ppf(tail, k, n - k + 1)) if k > 0 else 0.0
    high = float(stats.beta.ppf(1 - tail, k + 1, n - k)) if k < n else 1.0
    return Share(share, low, high)


def share_within(sample: Sample, limit: float, level: float = LEVEL) -> Share:
    """The share of a sample at or below ``limit``."""
    return _share_of(sample, sample.values <= limit, level)


def latency_of(sample: Sample, level: float = LEVEL) -> Latency:
    """Mean and quantiles of a sample, quantiles with their intervals over sessions."""
    order = np.argsort(sample.values)
    values, weights = sample.values[order], sample.weights[order]
    reached = np.cumsum(weights) / weights.sum()

    def value(share: float) -> float:
        place = int(np.searchsorted(reached, share - 1e-12))
        return float(values[min(place, len(values) - 1)])

    def at(q: float) -> Quantile:
        centre = value(q)
        around = _share_of(sample, sample.values <= centre, level, q)
        return Quantile(value=centre, low=value(around.low), high=value(around.high))

    return Latency(
        n=round(float(weights.sum())),
        mean=float(np.average(values, weights=weights)),
        p50=at(0.5),
        p90=at(0.9),
        p99=at(0.99),
    )


def _share_of(
    sample: Sample, within: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
    level: float, at: float | None = None,
) -> Share:  # fmt: skip
    _, session = np.unique(sample.sessions, return_inverse=True)
    good: Floats = np.bincount(session, sample.weights * within).astype(np.float64)
    total: Floats = np.bincount(session, sample.weights).astype(np.float64)
    return share_interval(good, total, sample.turns, level, at)
