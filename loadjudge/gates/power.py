"""How many tokens each statistic needs to see an attack. Design: statistics, section 3.

A statistic *sees* an attack in a run if it is off by more than chance at one false alarm in 100:
a gap's or a mean's 99 % interval leaves zero out, a p-value is below 0.01. Its need is the number
of tokens an arm at which it does so in 95 of 100 runs.

Needs up to a quarter of the pool are read off runs taken from it. Larger ones follow from the
whole pool's figure and error by the normal law, n = N ((z₀.₉₉₅ + z₀.₉₅) se / figure)², and are
marked as such; a figure that is less than three errors off zero in the whole pool is not seen.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from loadjudge.gates.calibration_pool import Ids, Pool, enough, orders
from loadjudge.gates.clusters import Estimate, Sums, difference, mean
from loadjudge.gates.gaps import COPY, END, FIRST_CHOICE, FIRST_CHOICE_LEAN, LIKELIHOOD, Excess
from loadjudge.gates.ranks import anderson_darling, kolmogorov_smirnov
from loadjudge.random import generator
from loadjudge.record.values import Floats

# "lean" weighs first choices as the test of the excesses does (gates/excess.py).
FIGURES: Mapping[str, Excess] = {
    "likelihood": LIKELIHOOD,
    "first choice": FIRST_CHOICE,
    "lean": FIRST_CHOICE_LEAN,
    "end": END,
    "copy": COPY,
}
ALARM = 0.01
CAUGHT = 0.95
SMALLEST = 32  # tokens
_PART = 4  # of the pool, at most, goes into a run
_SIGHT = 3.0  # errors
_REACH = 2.5758293 + 1.6448536  # normal quantiles at 0.995 and 0.95


@dataclass(frozen=True, slots=True)
class Need:
    """``tokens`` an arm, ``None``: not seen in the whole pool. ``measured``: else extrapolated."""

    tokens: int | None
    measured: bool


@dataclass(frozen=True, slots=True)
class Columns:
    """Sums of each reply of a pool, as the checks add them up: [replies] each.

    ``plain`` and ``excess`` by the names of ``FIGURES``; ``session`` is a number; ``u`` [tokens]
    are the ranks' positions.
    """

    session: Ids
    tokens: Floats
    plain: Mapping[str, Floats]
    excess: Mapping[str, Floats]
    variance: Mapping[str, Floats]
    outside: Floats
    u: Floats
    starts: Ids


def columns(pool: Pool, seed: int) -> Columns:
    """The sums of a pool, and its positions with a stream of U of their own."""
    numbers = {s: i for i, s in enumerate(dict.fromkeys(r.session for r in pool.replies))}

    def add(values: Floats) -> Floats:
        return np.asarray(np.add.reduceat(values, pool.starts[:-1]), np.float64)

    t = pool.terms
    uniform = generator(seed, "ranks", pool.name).random(len(t.q))
    return Columns(
        session=np.array([numbers[r.session] for r in pool.replies], np.int64),
        tokens=pool.tokens.astype(np.float64),
        plain={n: add(e.plain(t)) for n, e in FIGURES.items()},
        excess={n: add(e.excess(t)) for n, e in FIGURES.items()},
        variance={n: add(e.variance(t)) for n, e in FIGURES.items()},
        outside=add((t.q <= 0).astype(np.float64)),
        u=np.clip(t.above + uniform * t.q, 0.0, 1.0),
        starts=pool.starts,
    )


Statistic = Callable[[Columns, Columns, Ids], bool | Estimate]


def statistics() -> dict[str, Statistic]:
    """All of them by name: "plain", "excess" (arm against arm) and "zero" (against its known
    mean) of each figure, the share outside support, and both tests of ranks."""
    found: dict[str, Statistic] = {}
    for name in FIGURES:
        found[f"{name}, plain"] = _gap(name, plain=True)
        found[f"{name}, excess"] = _gap(name, plain=False)
        found[f"{name}, zero"] = _zero(name)
    found["support"] = _support
    found["ranks, against stock"] = lambda s, c, at: (
        anderson_darling(positions(c, at), positions(s, at)) < ALARM
    )
    found["ranks, uniform"] = lambda _, c, at: kolmogorov_smirnov(positions(c, at)) < ALARM
    return found


def _gap(name: str, *, plain: bool) -> Statistic:
    def statistic(stock: Columns, candidate: Columns, at: Ids) -> Estimate:
        return difference(
            summed(candidate, name, at, plain=plain), summed(stock, name, at, plain=plain)
        )

    return statistic


def _zero(name: str) -> Statistic:
    return lambda _, candidate, at: mean(summed(candidate, name, at, plain=False))


def _support(_: Columns, candidate: Columns, at: Ids) -> bool:
    """Stock never leaves the support, so one token outside is one too many; but the edge of the
    support is a matter of rounding on real engines, so it takes three."""
    return bool(candidate.outside[at].sum() >= 3)


def summed(one: Columns, name: str, at: Ids, *, plain: bool) -> Sums:
    """The sums by session of the replies ``at``, as ``clusters`` takes them."""
    session = one.session[at]
    values = one.plain if plain else one.excess
    tokens, total, variance = (
        np.bincount(session, weights=x[at]).astype(np.float64)
        for x in (one.tokens, values[name], one.variance[name])
    )
    if plain:
        variance = np.zeros_like(variance)
    there = np.flatnonzero(tokens)
    return Sums(tuple(map(str, there.tolist())), tokens[there], total[there], variance[there])


def positions(one: Columns, at: Ids) -> Floats:
    """The ranks' positions of the tokens of the replies ``at``."""
    sizes = one.starts[at + 1] - one.starts[at]
    first = np.repeat(one.starts[at] - (np.cumsum(sizes) - sizes), sizes)
    return np.asarray(one.u[first + np.arange(sizes.sum())])


def needs(stock: Pool, candidate: Pool, runs: int, seed: int) -> dict[str, Need]:
    """The need of every statistic."""
    s, c = columns(stock, seed), columns(candidate, seed)
    every = np.arange(min(len(stock.replies), len(candidate.replies)))
    pool = float(min(s.tokens[every].sum(), c.tokens[every].sum()))
    sizes = _sizes(pool / _PART)
    kinds = statistics()
    seen = {name: np.zeros(len(sizes)) for name in kinds}
    for run in range(runs):
        order = orders(generator(seed, "power", candidate.name, run), stock, candidate)
        for i, tokens in enumerate(sizes):
            at = order[: enough(order, stock, candidate, tokens)]
            for name, statistic in kinds.items():
                seen[name][i] += _sees(statistic(s, c, at))
    return {
        name: _need(sizes, seen[name] / runs, statistic(s, c, every), pool)
        for name, statistic in kinds.items()
    }


def _sizes(most: float) -> list[int]:
    """An octave apart."""
    sizes = [SMALLEST]
    while 2 * sizes[-1] <= most:
        sizes.append(2 * sizes[-1])
    return sizes


def _sees(found: bool | Estimate) -> bool:
    if isinstance(found, Estimate):
        low, high = found.interval(1 - ALARM)
        return low > 0 or high < 0
    return found


def _need(sizes: Sequence[int], share: Floats, whole: bool | Estimate, pool: float) -> Need:
    """Where the share of runs that see it crosses ``CAUGHT`` for good, on a scale of logarithms."""
    below = np.flatnonzero(share < CAUGHT)
    if not len(below):
        return Need(sizes[0], True)
    last = int(below[-1])
    if last + 1 < len(sizes):
        part = (CAUGHT - share[last]) / (share[last + 1] - share[last])
        return Need(round(sizes[last] * (sizes[last + 1] / sizes[last]) ** part), True)
    if isinstance(whole, Estimate) and abs(whole.value) >= _SIGHT * whole.se > 0:
        return Need(round(pool * (_REACH * whole.se / whole.value) ** 2), False)
    return Need(None, False)
