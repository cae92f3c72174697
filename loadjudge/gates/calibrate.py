"""Limits from runs, and how often honest engines and the red team then fail.

Design: statistics, section 3. Everything here is a function of pools of replies
(calibration_pool.py) and goes through the very checks that judge a run.

Bounds are set so that an honest engine passes all gates 99 times in 100 with so many tokens an
arm. Five gates have such a bound, so each may miss it twice in 1,000 runs (the union bound); the
two that test for chance alone, ranks and excess, take their p-value's limit. An
interval lies within the bound unless the gap is 3.09 errors off zero or more,

    bound = half width + z₀.₉₉₉ se

of the widest interval and the mean error in runs of stock against itself, at the level of the
first look under ``decide``.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy import stats

from loadjudge.gates.calibration_evidence import Errors, Runs
from loadjudge.gates.calibration_pool import Ids, Pool, enough, orders, run_of
from loadjudge.gates.checks import Checked, gates_of
from loadjudge.gates.power import columns, positions
from loadjudge.gates.ranks import anderson_darling, kolmogorov_smirnov
from loadjudge.gates.sequential import level_at
from loadjudge.random import generator
from loadjudge.record.evaluation import ExcessGap, Limits

LOOK = 1
RANK_P = 0.001
_GATES = 5  # likelihood, argmax, lengths, ends, support
_MISSED = float(stats.norm.ppf(1 - 0.01 / _GATES / 2))
_SUPPORT_TOKENS = 10  # support is decided with a tenth of the tokens
_ERRORS = {"likelihood": "excess_likelihood", "argmax": "excess_argmax"}


def checked_runs(
    stock: Pool, candidate: Pool, limits: Limits, tokens: int, runs: int, seed: int
) -> list[Checked]:
    """Every check of so many runs of so many tokens an arm."""
    found = []
    for run in range(runs):
        order = orders(generator(seed, "run", candidate.name, run), stock, candidate)
        at = order[: enough(order, stock, candidate, tokens)]
        found.append(gates_of(run_of(stock, candidate, at), limits, seed + run, LOOK))
    return found


def outcome(found: Sequence[Checked], tokens: int) -> Runs:
    """Counts of verdicts."""
    gates: dict[str, Counter[str]] = {}
    for one in found:
        for name, gate in one.gates.items():
            gates.setdefault(name, Counter())[gate.verdict] += 1
    verdicts = [{gate.verdict for gate in one.gates.values()} for one in found]
    return Runs(
        runs=len(found),
        tokens=tokens,
        failed=sum("fail" in v for v in verdicts),
        inconclusive=sum("inconclusive" in v and "fail" not in v for v in verdicts),
        gates={name: dict(counts) for name, counts in gates.items()},
    )


def limits_from(found: Sequence[Checked], given: Limits) -> Limits:
    """The limits that runs of stock against itself give; others stay as the task has them."""
    figures = [one.figures for one in found]

    def bound(name: str, scale: float = 1.0) -> float:
        half = max((f[name].high - f[name].low) / 2 for f in figures)
        return rounded_up(scale * (half + _MISSED * _rms(f[name].se for f in figures)))

    widest = [max(math.log(r.high / r.low) / 2 for r in f["lengths"].values()) for f in figures]
    lengths = max(widest) + _MISSED * _rms(widest) / _z()
    return given.model_copy(
        update={
            "likelihood_bound": bound("likelihood"),
            "excess_likelihood_bound": bound("excess_likelihood"),
            "argmax_bound": bound("argmax"),
            "excess_argmax_bound": bound("excess_argmax"),
            "ends_bound": bound("excess_end"),
            "support_bound": bound("support", math.sqrt(_SUPPORT_TOKENS)),
            "length_margin": rounded_up(math.exp(lengths) - 1),
            "rank_p": RANK_P,
            "excess_p": RANK_P,
        }
    )


def rounded_up(value: float) -> float:
    """To two digits."""
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / step - 1e-9) * step:.6g}")


def _z() -> float:
    return float(stats.norm.ppf(0.5 + level_at(LOOK) / 2))


def _rms(values: Iterable[float]) -> float:
    return float(np.sqrt(np.mean(np.square(list(values)))))


def errors_of(found: Sequence[Checked]) -> dict[str, Errors]:
    """Standard errors of plain and excess figures of the same replies."""
    return {
        name: Errors(
            plain=_rms(one.figures[name].se for one in found),
            excess=_rms(one.figures[excess].se for one in found),
            zero=_rms(_own_error(one.figures[excess]) for one in found),
        )
        for name, excess in _ERRORS.items()
    }


def _own_error(gap: ExcessGap) -> float:
    return (gap.candidate_high - gap.candidate_low) / 2 / _z()


def uniformity(stock: Pool, candidate: Pool, tokens: int, runs: int, seed: int) -> dict[str, float]:
    """Whether the ranks' p-values are uniform under honesty: the p-value of a Kolmogorov–Smirnov
    test of the p-values of so many runs, for each of the two tests."""
    s, c = columns(stock, seed), columns(candidate, seed)
    p: dict[str, list[float]] = {"against stock": [], "uniform": []}
    for run in range(runs):
        order = orders(generator(seed, "uniform", candidate.name, run), stock, candidate)
        at: Ids = order[: enough(order, stock, candidate, tokens)]
        ours, theirs = positions(c, at), positions(s, at)
        p["against stock"].append(anderson_darling(ours, theirs))
        p["uniform"].append(kolmogorov_smirnov(ours))
    return {name: kolmogorov_smirnov(np.array(values)) for name, values in p.items()}


def caught_at(
    stock: Pool, candidate: Pool, limits: Limits, sizes: Sequence[int], runs: int, seed: int
) -> tuple[bool, Runs]:
    """The outcome at the first of ``sizes`` at which 95 in 100 runs fail, or else at the last.

    A size at which a fifth of the runs already show that it is too small is left at that.
    """
    result: Any = None
    for tokens in sizes:
        few = checked_runs(stock, candidate, limits, tokens, max(runs // 5, 1), seed)
        result = outcome(few, tokens)
        if result.failed < 0.8 * result.runs:
            continue
        result = outcome(checked_runs(stock, candidate, limits, tokens, runs, seed), tokens)
        if result.failed >= 0.95 * runs:
            return True, result
    return False, result
