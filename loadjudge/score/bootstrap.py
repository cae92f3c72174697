"""Resampling sessions, and intervals from the resamples. Pure functions over arrays.

Sessions are the independent units: turns of one session share its topic, its history and its
luck, so an interval that resampled turns or tokens would be too short.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

from loadjudge.random import generator

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

RESAMPLES = 2000
LEVEL = 0.95
_ROUNDING = 1e-12  # sessions that differ by no more on the log scale all say the same


def session_weights(
    workloads: Mapping[str, Sequence[str]], seed: int, resamples: int = RESAMPLES
) -> dict[str, Floats]:
    """How often each resample draws each session: for each workload [resamples, sessions].

    A session that several workloads play moves together in all of them, so that what they
    share is not taken for independent evidence. Sessions are drawn among those that the same
    workloads play, as many as there are.
    """
    members: dict[str, list[str]] = {}
    for workload, sessions in workloads.items():
        for session in sessions:
            members.setdefault(session, []).append(workload)
    groups: dict[tuple[str, ...], list[str]] = {}
    for session, workloads_of in members.items():
        groups.setdefault(tuple(workloads_of), []).append(session)
    rng = generator(seed, "sessions")
    drawn: dict[str, Floats] = {}
    for played_by in sorted(groups):
        names = groups[played_by]
        n = len(names)
        counts = rng.multinomial(n, np.full(n, 1 / n), size=resamples).astype(np.float64)
        drawn.update(zip(names, counts.T, strict=True))
    return {w: np.stack([drawn[s] for s in sessions], 1) for w, sessions in workloads.items()}


def log_ratio(weights: Floats, numerator: Floats, denominator: Floats) -> tuple[Floats, Floats]:
    """log(Σ w·numerator / Σ w·denominator) for each row of weights, and each session's influence.

    The influence u of a session is what one more draw of it adds to the figure, to first order:
    numerator/Σ − denominator/Σ. It sums to zero over the draws. Shapes [rows] and
    [rows, sessions]; NaN where a sum is zero.
    """
    top, bottom = (weights @ numerator)[:, None], (weights @ denominator)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where((top > 0) & (bottom > 0), np.log(top / bottom), np.nan)[:, 0]
        return logs, numerator / top - denominator / bottom


def standard_error(weights: Floats, influence: Floats) -> Floats:
    """Linearised standard error of a figure over its sessions, for each row of weights."""
    n = weights.shape[1]
    variance = (weights * influence**2).sum(1) * n / max(n - 1, 1)
    return np.asarray(np.sqrt(variance))


def interval(
    centre: float, se: float, centres: Floats, ses: Floats, clusters: int, level: float = LEVEL
) -> tuple[float, float]:
    """The symmetric studentised bootstrap interval (bootstrap-t) of a figure.

    ``centres`` and ``ses`` are the figure and its standard error in each resample: centre ± q·se
    with q the level's quantile of |centres − centre| / ses. Token sums are skewed and sessions
    few; there the percentile interval covers 88 to 93 times in 100 and this one 94 to 95
    (bench/coverage.py; Hall 1988, "On Symmetric Bootstrap Confidence Intervals").
    With fewer than four sessions too many resamples hold one session alone, and Student's
    interval takes its place; with one there is no interval: infinite.
    """
    if clusters < 2 or not np.isfinite(centre):
        return -np.inf, np.inf
    if se < _ROUNDING:
        return centre, centre
    if clusters < 4:
        reach = float(stats.t.ppf(0.5 + level / 2, clusters - 1))
    else:
        # A resample of one session alone has no spread, hence no t; it counts as far out.
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.abs(centres - centre) / ses
        reach = float(np.quantile(t[~np.isnan(t)], level, method="higher"))
    return centre - reach * se, centre + reach * se
