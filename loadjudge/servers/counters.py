"""What an engine's metrics say: levels now, and what its counters gained over a window. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from loadjudge.servers.exposition import labels_of, numbers, samples, series, value
from loadjudge.servers.families import Blocks, Family, Info

# By counter, the value of each of its series: replicas, and positions of accepted_at.
Counters = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Load:
    """One look at how busy an engine is; ``None`` where it doesn't say."""

    in_flight: float | None
    waiting: float | None
    kv_usage: float | None  # 0 to 1, mean over replicas
    accept_length: float | None = None  # as its gauge says: tokens a verify step, not weighted


def load_of(family: Family, metrics: str) -> Load:
    running, waiting = value(metrics, family.running), value(metrics, family.waiting)
    in_flight = None if running is None else running + (waiting or 0.0)
    length = value(metrics, family.accept_length)
    # The gauge stands at 0 while nothing is speculated: that is no length.
    return Load(in_flight, waiting, value(metrics, family.kv_usage), length or None)


def kv_tokens(family: Family, metrics: str) -> float | None:
    """Size of the KV cache in tokens, all replicas together; None where the engine doesn't say."""
    for source in family.kv_tokens:
        match source:
            case Info(name, labels):
                size = _info(metrics, name, labels)
            case Blocks(blocks, tokens):
                count, each = value(metrics, blocks), value(metrics, tokens)
                size = None if count is None or each is None else count * each
            case metric:
                size = value(metrics, metric)
        if size:
            return size
    return None


def _info(metrics: str, name: str, labels: tuple[str, ...]) -> float | None:
    total: float | None = None
    for written in samples(metrics, name):
        factors = numbers(labels_of(written), labels)
        if factors is None:  # a replica that doesn't say makes the sum unknown
            return None
        size = 1.0
        for factor in factors:
            size *= factor
        total = (total or 0.0) + size
    return total


def counters(family: Family, metrics: str) -> Counters:
    """One scrape, as far as the family and the text have each counter."""
    found = {name: series(metrics, metric) for name, metric in family.counters.items()}
    positions = found.get("accepted_at")
    if positions:
        label = family.position
        found["accepted_at"] = {f"{labels_of(w).get(label)} {w}": v for w, v in positions.items()}
    return {name: values for name, values in found.items() if values}


def increase(before: Counters, after: Counters) -> dict[str, float]:
    """What each counter gained, summed over replicas; ``accepted_at_N`` for each position.

    A series that went down was reset in between and counts from 0, as in Prometheus; so does one
    that came up. Each replica alone: another's gain must not hide one's restart. A counter that
    is gone is unknown. Where an engine counts tokens and requests that ended, but not accepted
    tokens (SGLang), these are what its steps brought beyond one each, and each request's first
    token, the prefill's, is of no step.
    """
    gained: dict[str, float] = {}
    for name, now in after.items():
        then = before.get(name, {})
        for key, count in now.items():
            was = then.get(key, 0.0)
            told = f"{name}_{key.split(' ', 1)[0]}" if name == "accepted_at" else name
            gained[told] = gained.get(told, 0.0) + (count - was if count >= was else count)
    steps, tokens = gained.get("drafts"), gained.pop("generated", None)
    ended = gained.pop("finished", None)
    if "accepted" not in gained and steps and tokens is not None and ended is not None:
        gained["accepted"] = max(0.0, tokens - ended - steps)
    return gained


def tokens_per_step(gained: Mapping[str, float]) -> float | None:
    """1 + accepted / verify steps over a window; None where nothing was verified or counted."""
    steps, accepted = gained.get("drafts"), gained.get("accepted")
    return 1 + accepted / steps if steps and accepted is not None else None
