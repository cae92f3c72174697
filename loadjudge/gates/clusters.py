"""Means over tokens with their standard errors: the model's own, and sessions as clusters.

Design: statistics, section 2. A mean over tokens is a ratio, Σ statistic / Σ tokens. Two things
tell how far it is off. If the target's distribution at each token is known, each excess has a
known variance and the excesses are martingale differences, so the variances simply add up: that
is the model's own error, √Σ Var / n. And sessions, the independent units, differ among
themselves: that is the clusters' error, which needs no model.

The clusters' error counts where it is larger than the model's by more than chance makes it one
time in ten; else the model's. Always to take the larger one would make intervals too wide: they
would cover 97 in 100 with eight sessions, where this covers 95.5, and it still covers 92 to 94
where sessions differ by a quarter more than the model says.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from loadjudge.record.values import Floats

_CHANCE = 0.9

Row = tuple[str, float, float, float]  # session, tokens, Σ statistic, Σ variance


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums of one arm by session. [sessions] each."""

    sessions: tuple[str, ...]
    tokens: Floats
    total: Floats
    variance: Floats  # Σ of the model's variances; zeros where no model says

    @property
    def n(self) -> int:
        return int(self.tokens.sum())

    @property
    def mean(self) -> float:
        return float(self.total.sum() / self.tokens.sum())


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean or a difference of means with its standard error.

    ``freedom``: degrees of freedom of the error; infinite where it is the model's own.
    """

    value: float
    se: float
    freedom: float
    clusters: int

    @property
    def p_value(self) -> float:
        """Two-sided, of a value as far off zero as this one; 1 where nothing tells the error."""
        if self.se == 0:
            return float(self.value == 0)  # nothing was left to chance
        if not np.isfinite(self.se):
            return 1.0
        return float(2 * stats.t.sf(abs(self.value) / self.se, self.freedom))

    def interval(self, level: float) -> tuple[float, float]:
        """value ± t·se. Infinite where one cluster is all there is."""
        reach = float(stats.t.ppf(0.5 + level / 2, self.freedom)) * self.se if self.se else 0.0
        return self.value - reach, self.value + reach


def sums(rows: Iterable[Row]) -> Sums:
    """Adds up replies by session."""
    by_session: dict[str, list[float]] = {}
    for session, tokens, total, variance in rows:
        held = by_session.setdefault(session, [0.0, 0.0, 0.0])
        held[0] += tokens
        held[1] += total
        held[2] += variance
    kept = {s: v for s, v in by_session.items() if v[0] > 0}
    table = np.array([kept[s] for s in kept], np.float64).reshape(-1, 3)
    return Sums(tuple(kept), table[:, 0], table[:, 1], table[:, 2])


def mean(one: Sums) -> Estimate:
    """The mean over one arm's tokens."""
    model = float(np.sqrt(one.variance.sum())) / one.n
    return _estimate(one.mean, _influence(one), one.tokens, model)


def difference(candidate: Sums, stock: Sums) -> Estimate:
    """Candidate minus stock. A session that both arms played is one cluster: what it does to
    both arms alike cancels, and what it does to both at random adds up once."""
    names = list(dict.fromkeys((*candidate.sessions, *stock.sessions)))
    place = {s: i for i, s in enumerate(names)}
    influence, weight = np.zeros(len(names)), np.zeros(len(names))
    model = 0.0
    for arm, sign in ((candidate, 1.0), (stock, -1.0)):
        at = [place[s] for s in arm.sessions]
        with np.errstate(invalid="ignore"):  # one session in each arm: infinite, and it stays so
            influence[at] += sign * _influence(arm)
        weight[at] += arm.tokens / arm.n**2
        model += float(arm.variance.sum()) / arm.n**2
    return _estimate(candidate.mean - stock.mean, influence, weight, float(np.sqrt(model)))


def _influence(one: Sums) -> Floats:
    """What each session adds to the mean, to first order: its residual Σ (x − mean) / n.

    Residuals of a fitted mean are too small by √(1 − the session's share of the tokens); with
    equal shares that is the G / (G − 1) of a plain variance (the CR2 correction of Bell and
    McCaffrey 2002, "Bias reduction in standard errors for linear regression").
    """
    share = one.tokens / one.n
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((one.total - one.mean * one.tokens) / one.n / np.sqrt(1 - share))


def _estimate(value: float, influence: Floats, weight: Floats, model: float) -> Estimate:
    """The error of the two that counts, and its degrees of freedom.

    A session's variance grows about with its tokens, so a few long sessions make the clusters'
    error no better known than as few equal ones would: Satterthwaite's (Σw)² / Σw², minus one.
    """
    freedom = float(weight.sum() ** 2 / (weight**2).sum()) - 1
    if len(weight) < 2 or not np.isfinite(influence).all() or freedom <= 0:
        return Estimate(value, np.inf, 1.0, len(weight))
    clusters = float(np.sqrt((influence**2).sum()))
    chance = float(stats.chi2.ppf(_CHANCE, freedom)) / freedom
    if clusters**2 <= model**2 * chance:
        return Estimate(value, model, np.inf, len(weight))
    return Estimate(value, clusters, freedom, len(weight))
