"""Service level objectives: what a turn, or a share of all turns, has to keep. Pure.

``--goodput ttft:200 tpot:50`` follows ``vllm bench serve``: milliseconds that each request has to
keep. ``--search ttft:p99:200`` names a statistic of a metric and its limit in milliseconds.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from loadjudge.errors import JudgeError, Status
from loadjudge.record.evaluation import Model
from loadjudge.record.values import PlayRecord, TurnRecord
from loadjudge.score.bootstrap import LEVEL, interval, log_ratio, session_weights, standard_error
from loadjudge.score.clustered import Sample, share_within
from loadjudge.score.latency import inter_token, time_per_output_token

Metric = Literal["ttft", "ttfot", "tpot", "itl", "e2el"]
SloVerdict = Literal["keeps", "misses", "undecided"]


def _since_sent(read: Callable[[TurnRecord], float | None]) -> Callable[[TurnRecord], float | None]:
    def value(turn: TurnRecord) -> float | None:
        time = read(turn)
        return None if time is None else time - turn.sent_s

    return value


TURN_METRICS: dict[str, Callable[[TurnRecord], float | None]] = {
    "ttft": _since_sent(lambda turn: turn.first_s),
    "ttfot": _since_sent(lambda turn: turn.first_content_s),
    "tpot": time_per_output_token,
    "e2el": _since_sent(lambda turn: turn.last_s),
}


class Slo(Model):
    """A statistic of a metric and its limit; ``stat``: mean, or pNN."""

    metric: Metric
    stat: str
    limit_ms: float

    @property
    def share(self) -> float | None:
        """The share of turns that has to keep the limit; None for the mean."""
        return None if self.stat == "mean" else float(self.stat[1:]) / 100

    def __str__(self) -> str:
        return f"{self.metric.upper()} {self.stat} ≤ {self.limit_ms:g} ms"


@dataclass(frozen=True, slots=True)
class Kept:
    """An objective looked at once: whether the figure keeps it, and whether that is shown."""

    figure_s: float  # the statistic; infinite where so many turns failed
    verdict: SloVerdict  # by the interval
    keeps: bool  # by the figure alone


def parse_search(words: Sequence[str]) -> tuple[Slo, ...]:
    """Objectives from ``ttft:p99:200``. Raises JudgeError (usage)."""
    found = []
    for word in _split(words):
        match = re.fullmatch(r"(\w+):(mean|p\d{1,2}(?:\.\d+)?):(\d+(?:\.\d+)?)", word)
        if match is None or match[1] not in (*TURN_METRICS, "itl") or match[2] in ("p0", "p00"):
            raise JudgeError(
                f"--search takes METRIC:STATISTIC:MILLISECONDS, as in ttft:p99:200, of ttft, "
                f"ttfot, tpot, itl or e2el and mean or p1 to p99.9; not {word!r}",
                Status.USAGE,
            )
        found.append(Slo(metric=match[1], stat=match[2], limit_ms=float(match[3])))
    return tuple(found)


def parse_goodput(words: Sequence[str]) -> dict[str, float]:
    """Milliseconds by metric from ``ttft:200 tpot:50``. Raises JudgeError (usage)."""
    limits: dict[str, float] = {}
    for word in _split(words):
        match = re.fullmatch(r"(\w+):(\d+(?:\.\d+)?)", word)
        if match is None or match[1] not in TURN_METRICS or match[1] in limits:
            raise JudgeError(
                f"--goodput takes METRIC:MILLISECONDS, each once, as in ttft:200 tpot:50, of "
                f"{', '.join(TURN_METRICS)}; not {word!r}",
                Status.USAGE,
            )
        limits[match[1]] = float(match[2])
    return limits


def _split(words: Sequence[str]) -> list[str]:
    return [part for word in words for part in re.split(r"[\s,]+", word) if part]


def good_turn(turn: TurnRecord, limits: dict[str, float]) -> bool:
    """Whether a turn went well and kept every limit. What can't be measured isn't kept, but for
    the TPOT of a reply of one token, as in ``vllm bench serve``."""
    if turn.error is not None:
        return False
    one_token = turn.tokens is not None and turn.tokens <= 1
    for metric, limit in limits.items():
        value = 0.0 if metric == "tpot" and one_token else TURN_METRICS[metric](turn)
        if value is None or 1e3 * value > limit:
            return False
    return True


def sample_of(plays: Sequence[PlayRecord], metric: str, *, failed: bool = True) -> Sample | None:
    """A metric of all turns of plays, in seconds; None where there is none.

    Turns that failed are infinitely late, or left out.
    """
    sessions = {s: i for i, s in enumerate(dict.fromkeys(p.session for p in plays))}
    values: list[float] = []
    weights: list[float] = []
    of: list[int] = []
    turns = 0
    for play in plays:
        for turn in play.turns:
            if turn.error is not None and not failed:
                continue
            more, their = _values(turn, metric)
            values += more
            weights += their
            of += [sessions[play.session]] * len(more)
            turns += bool(more)
    if not values:
        return None
    return Sample(np.array(values), np.array(weights), np.array(of, dtype=np.intp), turns)


def _values(turn: TurnRecord, metric: str) -> tuple[list[float], list[float]]:
    if turn.error is not None:
        return [float("inf")], [1.0]
    if metric == "itl":
        return inter_token(turn)
    value = TURN_METRICS[metric](turn)
    return ([], []) if value is None else ([value], [1.0])


def look(slo: Slo, plays: Sequence[PlayRecord], seed: int, level: float = LEVEL) -> Kept | None:
    """Holds plays against an objective; None where they have no such metric.

    A quantile keeps its limit if at least its share of the turns does: decided by that share's
    interval over sessions. A mean, by its own.
    """
    sample = sample_of(plays, slo.metric)
    if sample is None:
        return None
    limit = slo.limit_ms / 1e3
    if slo.share is None:
        return _look_at_mean(sample, limit, seed, level)
    within = share_within(sample, limit, level)
    order = np.argsort(sample.values)
    reached = np.cumsum(sample.weights[order]) / sample.weights.sum()
    place = min(int(np.searchsorted(reached, slo.share - 1e-12)), len(order) - 1)
    verdict: SloVerdict = (
        "keeps" if within.low >= slo.share else "misses" if within.high < slo.share else "undecided"
    )
    return Kept(float(sample.values[order][place]), verdict, within.share >= slo.share - 1e-12)


def _look_at_mean(sample: Sample, limit: float, seed: int, level: float) -> Kept:
    mean = float(np.average(sample.values, weights=sample.weights))
    if not np.isfinite(mean):  # a turn that failed has no mean
        return Kept(mean, "misses", keeps=False)
    sums = np.bincount(sample.sessions, sample.weights * sample.values).astype(np.float64)
    counts = np.bincount(sample.sessions, sample.weights).astype(np.float64)
    clusters = len(sums)
    once = np.ones((1, clusters))
    weights = session_weights({"point": [str(i) for i in range(clusters)]}, seed)["point"]
    centre, influence = log_ratio(once, sums, counts)
    centres, influences = log_ratio(weights, sums, counts)
    low, high = np.exp(
        interval(
            float(centre[0]),
            float(standard_error(once, influence)[0]),
            centres,
            standard_error(weights, influences),
            clusters,
            level,
        )
    )
    verdict: SloVerdict = "keeps" if high <= limit else "misses" if low > limit else "undecided"
    return Kept(mean, verdict, mean <= limit)
