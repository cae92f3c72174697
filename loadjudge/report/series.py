"""From a run's passes to arrays that can be drawn. Pure; times in seconds.

Only measured plays count, but for figures over time, which show fillers too. Failed turns bring
no tokens.
"""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from loadjudge.record.values import PassRecord, TurnRecord

Floats = NDArray[np.float64]
Curve = tuple[Floats, Floats]
CURVE_POINTS = 400  # per curve at most, however long the run
TIME_BINS = 90  # of a curve over time, at most
TOKENS_A_BIN = 150  # fewer say more about chance than about the engine
MAX_TURNS = 40  # turn indices that acceptance by turn shows
ENOUGH_TURNS = 3  # an index with fewer turns says nothing


def arrival_tokens(turn: TurnRecord) -> Floats:
    """Tokens of each arrival; empty where the turn failed or its count is unknown.

    Where the count comes from ids, each arrival's own; else the trusted count is spread over the
    arrivals by their characters, for what an engine claims per chunk is not believed.
    """
    if turn.error is not None or turn.tokens is None or not turn.arrivals:
        return np.empty(0)
    own = [tokens for _, tokens, _ in turn.arrivals if tokens is not None]
    if turn.source == "ids" and len(own) == len(turn.arrivals):
        return np.array(own, dtype=float)
    characters = np.array([c for _, _, c in turn.arrivals], dtype=float)
    if characters.sum() <= 0:
        characters = np.ones(len(turn.arrivals))
    return np.asarray(turn.tokens * characters / characters.sum(), dtype=np.float64)


def first_token_times(passes: Iterable[PassRecord]) -> Floats:
    """TTFT of every measured turn, from sending it to its first generated token."""
    return np.array(
        [t.first_s - t.sent_s for t in _turns(passes) if t.first_s is not None], dtype=float
    )


def token_gaps(passes: Iterable[PassRecord]) -> Curve:
    """Inter-token times and the number of tokens that each counts for.

    An arrival of k tokens after a gap g counts k times with g / k. First arrivals are TTFT's.
    """
    gaps: list[Floats] = []
    weights: list[Floats] = []
    for turn in _turns(passes):
        tokens = arrival_tokens(turn)[1:]
        if not len(tokens):
            continue
        gap = np.diff([time for time, _, _ in turn.arrivals])
        bears = tokens > 0
        gaps.append(gap[bears] / tokens[bears])
        weights.append(tokens[bears])
    if not gaps:
        return np.empty(0), np.empty(0)
    return np.concatenate(gaps), np.concatenate(weights)


def ecdf(values: Floats, weights: Floats | None = None, points: int = CURVE_POINTS) -> Curve:
    """Empirical distribution: sorted values and the share of weight at or below each.

    More than ``points`` values are thinned to about evenly spaced shares; both ends stay.
    """
    order = np.argsort(values, kind="stable")
    x = values[order]
    mass = np.ones(len(x)) if weights is None else weights[order]
    y = np.cumsum(mass) / max(float(mass.sum()), 1e-300)
    if len(x) > points:
        kept = np.searchsorted(y, np.linspace(y[0], 1.0, points)).clip(0, len(x) - 1)
        kept = np.unique(np.append(kept, len(x) - 1))[-points:]
        x, y = x[kept], y[kept]
    return x, y


def quantile(values: Floats, share: float, weights: Floats | None = None) -> float:
    """The least value that at least ``share`` of the weight doesn't exceed."""
    order = np.argsort(values, kind="stable")
    mass = np.ones(len(values)) if weights is None else weights[order]
    cumulative = np.cumsum(mass)
    at = int(np.searchsorted(cumulative, share * cumulative[-1] * (1 - 1e-12)))
    return float(values[order][min(at, len(values) - 1)])


def throughput(record: PassRecord, bins: int | None = None) -> Curve:
    """Edges of equal bins from 0 to the last arrival, and output tokens per second in each.

    Without ``bins``, as many as leave ``TOKENS_A_BIN`` tokens in each on average.
    """
    pairs = [
        (np.array([time for time, _, _ in turn.arrivals]), tokens)
        for play in record.plays
        for turn in play.turns
        if len(tokens := arrival_tokens(turn))
    ]
    if not pairs:
        return np.empty(0), np.empty(0)
    times = np.concatenate([times for times, _ in pairs])
    tokens = np.concatenate([tokens for _, tokens in pairs])
    if bins is None:
        bins = int(np.clip(tokens.sum() / TOKENS_A_BIN, 8, TIME_BINS))
    edges = np.linspace(0.0, max(float(times.max()), 1e-9), bins + 1)
    counts, _ = np.histogram(times, bins=edges, weights=tokens)
    return edges, np.asarray(counts / np.diff(edges), dtype=np.float64)


def in_flight(record: PassRecord) -> Curve:
    """Times at which the number of turns in flight changes, and the number from then on.

    A turn is in flight from being sent to its last token, a failed one to its end.
    """
    changes: list[tuple[float, int]] = []
    for play in record.plays:
        for turn in play.turns:
            end = turn.done_s if turn.error or turn.last_s is None else turn.last_s
            changes += [(turn.sent_s, 1), (max(end, turn.sent_s), -1)]
    changes.sort()
    times = np.array([time for time, _ in changes], dtype=float)
    return times, np.cumsum([step for _, step in changes], dtype=float)


def step_means(times: Floats, values: Floats, bins: int | None = None) -> Curve:
    """Edges of equal bins and means in them of a step function, ``values[i]`` from ``times[i]``.

    Without ``bins``, as many as leave about six changes in each.
    """
    if bins is None:
        bins = int(np.clip(len(times) / 6, 8, TIME_BINS))
    edges = np.linspace(times[0], times[-1], bins + 1)
    area = np.concatenate([[0.0], np.cumsum(values[:-1] * np.diff(times))])
    within = np.interp(edges, times, area)
    return edges, np.asarray(np.diff(within) / np.diff(edges), dtype=np.float64)


def tokens_by_turn(passes: Iterable[PassRecord]) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Turn indices from 0, mean tokens per arrival at each, and the turns behind it.

    The mean is all tokens over all arrivals. Indices with fewer than ``ENOUGH_TURNS`` turns are
    left out, unless all have so few.
    """
    sums = np.zeros((MAX_TURNS, 3))
    for turn in _turns(passes):
        tokens = arrival_tokens(turn)
        if turn.index < MAX_TURNS and len(tokens):
            sums[turn.index] += (tokens.sum(), len(tokens), 1)
    seen = sums[:, 2] >= ENOUGH_TURNS
    if not seen.any():
        seen = sums[:, 2] > 0
    kept = sums[seen]
    return np.flatnonzero(seen), kept[:, 0] / kept[:, 1], kept[:, 2]


def _turns(passes: Iterable[PassRecord]) -> Iterator[TurnRecord]:
    """Measured turns that did not fail."""
    for record in passes:
        for play in record.measured:
            for turn in play.turns:
                if turn.error is None:
                    yield turn
