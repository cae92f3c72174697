"""What can be said of two arms from live traffic. Pure.

Sessions are the units (statistics, section 1). Split traffic is not paired: other users, other
prompts, and a load on each arm that goes by its share, so its ratios say how the arms serve what
each of them gets. Mirrored traffic is paired request by request, with the same prompts; there a
session's figures of both arms move together.
"""

import math
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from loadjudge.gates.clusters import Estimate, Row, mean, sums
from loadjudge.record.values import ARMS, Arm
from loadjudge.score.bootstrap import LEVEL, log_ratio, standard_error

_SESSIONS = 4096  # of an arm that are kept, the last ones
_VALUES = 4096  # of a figure that medians are taken of
_FEWEST = 10  # sessions of an arm below which no interval is given

FIGURES = ("ttft_s", "tpot_s", "e2el_s", "output_tokens")


@dataclass(frozen=True, slots=True)
class Ratio:
    """Candidate over stock, with its interval at 95 %: None where there is too little for one."""

    figure: str
    of: str  # "mean" or "median"
    stock: float
    candidate: float
    ratio: float
    low: float | None
    high: float | None
    sessions: tuple[int, int]  # stock's and the candidate's
    paired: bool


class Live:
    """Sums by session and values of late, of both arms. Bounded."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, Arm], OrderedDict[str, list[float]]] = {
            (figure, arm): OrderedDict() for figure in FIGURES for arm in ARMS
        }
        self._values: dict[tuple[str, Arm], deque[tuple[str, float]]] = {
            (figure, arm): deque(maxlen=_VALUES) for figure in FIGURES for arm in ARMS
        }

    def add(self, arm: Arm, session: str, figure: str, weight: float, value: float) -> None:
        """``value`` is a mean over ``weight`` (requests, or tokens)."""
        by_session = self._sums[figure, arm]
        held = by_session.setdefault(session, [0.0, 0.0])
        by_session.move_to_end(session)
        held[0] += weight
        held[1] += weight * value
        self._values[figure, arm].append((session, value))
        while len(by_session) > _SESSIONS:
            by_session.popitem(last=False)

    def ratios(self, *, paired: bool) -> list[Ratio]:
        """Of each figure that both arms have: the means', and for split traffic the medians'."""
        found = []
        for figure in FIGURES:
            stock, candidate = (self._rows(figure, arm) for arm in ARMS)
            if not stock or not candidate:
                continue
            found.append(
                paired_means(figure, stock, candidate)
                if paired
                else unpaired_means(figure, stock, candidate)
            )
            if not paired:
                values = [list(self._values[figure, arm]) for arm in ARMS]
                found.append(unpaired_medians(figure, values[0], values[1]))
        return found

    def _rows(self, figure: str, arm: Arm) -> list[Row]:
        return [(s, w, t, 0.0) for s, (w, t) in self._sums[figure, arm].items()]


def unpaired_means(figure: str, stock: Sequence[Row], candidate: Sequence[Row]) -> Ratio:
    """The ratio of two arms' means, and its interval by the delta method on the log scale.

    Var log(a / b) = Var(a) / a² + Var(b) / b² for independent arms, each variance by sessions as
    clusters; Welch's degrees of freedom.
    """
    one, other = mean(sums(stock)), mean(sums(candidate))
    low = high = None
    enough = min(one.clusters, other.clusters) >= _FEWEST
    if enough and one.value > 0 and other.value > 0:
        parts = [(e.se / e.value) ** 2 for e in (one, other)]
        reach = _reach(parts, [one.freedom, other.freedom])
        low, high = _around(other.value / one.value, reach)
    return Ratio(
        figure=figure,
        of="mean",
        stock=one.value,
        candidate=other.value,
        ratio=_over(other.value, one.value),
        low=low,
        high=high,
        sessions=(one.clusters, other.clusters),
        paired=False,
    )


def unpaired_medians(
    figure: str, stock: Sequence[tuple[str, float]], candidate: Sequence[tuple[str, float]]
) -> Ratio:
    """The ratio of two arms' medians.

    Each median's interval inverts that of the share below it, sessions as clusters (Woodruff
    1952); the two are joined on the log scale by the square-and-add rule (MOVER, Zou and Donner
    2008).
    """
    arms = [_median(stock), _median(candidate)]
    (s, s_low, s_high, s_n), (c, c_low, c_high, c_n) = arms
    low = high = None
    if min(s_n, c_n) >= _FEWEST and s_low > 0 and c_low > 0:
        d = math.log(c / s)
        down = math.hypot(math.log(c / c_low), math.log(s_high / s))
        up = math.hypot(math.log(c_high / c), math.log(s / s_low))
        low, high = math.exp(d - down), math.exp(d + up)
    return Ratio(
        figure=figure,
        of="median",
        stock=s,
        candidate=c,
        ratio=_over(c, s),
        low=low,
        high=high,
        sessions=(s_n, c_n),
        paired=False,
    )


def paired_means(figure: str, stock: Sequence[Row], candidate: Sequence[Row]) -> Ratio:
    """The ratio of means over requests that both arms answered, sessions moving together."""
    theirs = {row[0]: row for row in candidate}
    both = [(row, theirs[row[0]]) for row in stock if row[0] in theirs]
    s = np.array([[a[1], a[2]] for a, _ in both], np.float64).reshape(-1, 2)
    c = np.array([[b[1], b[2]] for _, b in both], np.float64).reshape(-1, 2)
    means = [float(t[:, 1].sum() / t[:, 0].sum()) if t[:, 0].sum() else 0.0 for t in (s, c)]
    low = high = None
    if len(both) >= _FEWEST and min(means) > 0:
        # A mean is itself a ratio, of sums to weights: both arms' influences add up by session.
        ones = np.ones((1, len(both)))
        influence = log_ratio(ones, c[:, 1], c[:, 0])[1] - log_ratio(ones, s[:, 1], s[:, 0])[1]
        se = float(standard_error(ones, influence)[0])
        low, high = _around(means[1] / means[0], _reach([se**2], [len(both) - 1]))
    return Ratio(
        figure=figure,
        of="mean",
        stock=means[0],
        candidate=means[1],
        ratio=_over(means[1], means[0]),
        low=low,
        high=high,
        sessions=(len(both), len(both)),
        paired=True,
    )


def _median(values: Sequence[tuple[str, float]]) -> tuple[float, float, float, int]:
    """Median, the ends of its interval, sessions."""
    data = np.sort(np.array([v for _, v in values], np.float64))
    middle = float(np.median(data))
    below: Estimate = mean(sums((s, 1.0, float(v <= middle), 0.0) for s, v in values))
    if below.clusters < 2 or not math.isfinite(below.se):
        return middle, 0.0, math.inf, below.clusters
    reach = float(stats.t.ppf(0.5 + LEVEL / 2, below.freedom)) * below.se
    ends = np.quantile(data, [max(0.0, 0.5 - reach), min(1.0, 0.5 + reach)])
    return middle, float(ends[0]), float(ends[1]), below.clusters


def _reach(variances: Sequence[float], freedoms: Sequence[float]) -> float:
    """Half the width of the interval on the log scale, with Welch's degrees of freedom."""
    total = sum(variances)
    if total <= 0:
        return 0.0
    below = sum(v**2 / f for v, f in zip(variances, freedoms, strict=True) if v and f)
    freedom = total**2 / below if below else math.inf
    return float(stats.t.ppf(0.5 + LEVEL / 2, freedom)) * math.sqrt(total)


def _around(ratio: float, reach: float) -> tuple[float | None, float | None]:
    if not math.isfinite(reach) or reach > 20:
        return None, None
    return ratio * math.exp(-reach), ratio * math.exp(reach)


def _over(candidate: float, stock: float) -> float:
    return float(candidate / stock) if stock else math.nan
