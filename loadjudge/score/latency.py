"""Latencies of turns, in seconds, and their quantiles. Design: statistics, section 1."""

from collections.abc import Iterable, Sequence

import numpy as np
from scipy import stats

from loadjudge.record.evaluation import Latency, Quantile
from loadjudge.record.values import TurnRecord
from loadjudge.score.bootstrap import LEVEL, Floats


def tokens_by_arrival(turn: TurnRecord) -> list[float] | None:
    """Tokens of each arrival of a turn; None where the turn has no trusted count.

    The engine's ids say how many each read brought. Where it sends none, the turn's trusted
    count is shared out by characters: exact in sum, approximate in place.
    """
    if turn.tokens is None or not turn.arrivals:
        return None
    if turn.source == "ids" and all(n is not None for _, n, _ in turn.arrivals):
        return [float(n or 0) for _, n, _ in turn.arrivals]
    characters = sum(c for _, _, c in turn.arrivals)
    return [turn.tokens * c / max(characters, 1) for _, _, c in turn.arrivals]


def inter_token(turn: TurnRecord) -> tuple[list[float], list[float]]:
    """Inter-token latencies of a turn and their weights.

    k tokens that come together after a gap g are k latencies of g/k: counting the gap once for
    the whole read would make an engine that sends several tokens a chunk look k times slower.
    """
    tokens = tokens_by_arrival(turn)
    if tokens is None:
        return [], []
    gaps, weights = [], []
    before = turn.arrivals[0][0]
    for (now, _, _), k in zip(turn.arrivals[1:], tokens[1:], strict=True):
        if k > 0:  # a read without tokens only makes the next one's gap longer
            gaps.append((now - before) / k)
            weights.append(k)
            before = now
    return gaps, weights


def time_per_output_token(turn: TurnRecord) -> float | None:
    """TPOT = (t_last − t_first) / (tokens − tokens in the first read)."""
    tokens = tokens_by_arrival(turn)
    if tokens is None or turn.first_s is None or turn.last_s is None:
        return None
    rest = sum(tokens) - tokens[0]
    return (turn.last_s - turn.first_s) / rest if rest > 0 else None


def latencies(turns: Sequence[TurnRecord]) -> dict[str, Latency]:
    """ttft, ttfot, itl, tpot, e2el and queue of turns that went well.

    TTFT is to the first token of any channel, TTFOT to the first of the content; both from the
    moment of sending, as is E2EL, which ends with the last token. The queue is the client's
    own: from when a turn was due to when it was sent.
    """
    good = [t for t in turns if t.error is None]
    samples: dict[str, tuple[list[float], list[float] | None]] = {
        "ttft": ([t.first_s - t.sent_s for t in good if t.first_s is not None], None),
        "ttfot": (
            [t.first_content_s - t.sent_s for t in good if t.first_content_s is not None],
            None,
        ),
        "tpot": (_present(map(time_per_output_token, good)), None),
        "e2el": ([t.last_s - t.sent_s for t in good if t.last_s is not None], None),
        "queue": ([t.sent_s - t.scheduled_s for t in good], None),
    }
    gaps: list[float] = []
    weights: list[float] = []
    for turn in good:
        more, their = inter_token(turn)
        gaps += more
        weights += their
    samples["itl"] = (gaps, weights)
    return {
        name: _summary(np.asarray(values), None if w is None else np.asarray(w))
        for name, (values, w) in samples.items()
        if values
    }


def _present(values: Iterable[float | None]) -> list[float]:
    return [v for v in values if v is not None]


def _summary(values: Floats, weights: Floats | None) -> Latency:
    order = np.argsort(values)
    sorted_values = values[order]
    w = np.ones_like(values) if weights is None else weights[order]
    reached = np.cumsum(w)
    n = float(reached[-1])

    def at(q: float) -> Quantile:
        low, high = rank_interval(max(round(n), 1), q)
        ranks = np.searchsorted(reached, np.array([low, q * n, high]), side="left")
        low_v, value, high_v = sorted_values[np.minimum(ranks, len(values) - 1)]
        return Quantile(value=value, low=low_v, high=high_v)

    return Latency(
        n=max(round(n), 1), mean=float(np.average(sorted_values, weights=w)),
        p50=at(0.5), p90=at(0.9), p99=at(0.99),
    )  # fmt: skip


def rank_interval(n: int, q: float, level: float = LEVEL) -> tuple[int, int]:
    """Ranks (1-based) of the order statistics that bracket the q-quantile of n samples.

    The number of samples below the true quantile is Binomial(n, q), so the samples of these
    ranks hold it between them at the level, whatever the distribution. Where the samples are
    too few for that (fewer than 368 for p99 at 95 %), the interval ends at the last of them.
    """
    low = int(stats.binom.ppf(0.5 - level / 2, n, q))
    high = int(stats.binom.ppf(0.5 + level / 2, n, q)) + 1
    return max(low, 1), min(high, n)
