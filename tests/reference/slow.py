"""The model again, slowly, from its definition: to compare with."""

from collections import Counter, defaultdict
from math import exp

from loadjudge.reference.model import Shape
from loadjudge.reference.ngram import HEADERS
from loadjudge.reference.tokenizer import (
    AGENT,
    ARGS,
    ASSISTANT,
    CALL,
    END,
    ENDCALL,
    TOOLS,
    is_special,
)

Counts = dict[tuple[int, ...], Counter[int]]


def count(streams: list[list[int]]) -> Counts:
    """Next tokens by context of 0 to 4 tokens."""
    counts: Counts = defaultdict(Counter)
    for stream in streams:
        for i, token in enumerate(stream):
            if token not in HEADERS:
                for n in range(min(i, 4) + 1):
                    counts[tuple(stream[i - n : i])][token] += 1
    return counts


def distribution(counts: Counts, h: list[int], shape: Shape, vocab: int) -> list[float]:
    """p after history ``h``."""
    p = _ngram(counts, h, shape.order, vocab)
    specials = [i for i, token in enumerate(h) if is_special(token)]
    last = specials[-1] if specials else None
    longest, copied = _copy(h, len(h) if last is None else last)
    m = shape.copy_mass[longest]
    p = [(1 - m) * a for a in p]
    for token, weight in copied.items():
        p[token] += m * weight
    return _constrained(p, h, specials, shape)


def _ngram(counts: Counts, h: list[int], order: int, vocab: int) -> list[float]:
    seen = counts[()]
    floor = [0.0 if v in HEADERS else 1 + v / vocab for v in range(vocab)]
    p = [0.999 * seen[v] / seen.total() + 0.001 * floor[v] / sum(floor) for v in range(vocab)]
    for n in range(1, order):
        after = counts.get(tuple(h[-n:])) if len(h) >= n else None
        if after:
            back = len(after) / (len(after) + after.total())
            p = [back * a + (1 - back) * after[v] / after.total() for v, a in enumerate(p)]
    return p


def _copy(h: list[int], limit: int) -> tuple[int, dict[int, float]]:
    def length(at: int) -> int:
        n = 0
        while n < 8 and n < at and h[at - 1 - n] == h[-1 - n]:
            n += 1
        return n

    if not h:
        return 0, {}
    for shortest in (2, 1):
        # The 16 latest places, of which the 8 latest that are followed by something to copy.
        places = [at for at in range(len(h) - 1, 0, -1) if length(at) >= shortest][:16]
        places = [at for at in places if at < limit][:8]
        if places:
            lengths = {at: length(at) if shortest == 2 else 1 for at in places}
            weights: dict[int, float] = defaultdict(float)
            for at, n in lengths.items():
                weights[h[at]] += 2.0**n
            total = sum(weights.values())
            return max(lengths.values()), {v: w / total for v, w in weights.items()}
    return 0, {}


def _constrained(p: list[float], h: list[int], specials: list[int], shape: Shape) -> list[float]:
    place = h[specials[-1]] if specials else None
    possible = {
        ASSISTANT: {END},
        AGENT: {END, CALL},
        CALL: {ARGS},
        ARGS: {ENDCALL},
        ENDCALL: {END, CALL},
    }.get(place or -1, set())
    p = [0.0 if is_special(v) and v not in possible else a for v, a in enumerate(p)]
    length = _length(h, specials, place)
    odds = min(exp(shape.end_bias + length / shape.end_scale), shape.end_cap) if length else 0.0
    p[END] *= odds
    p[ENDCALL] *= odds
    p = [a / sum(p) for a in p]
    hazard = min((length - shape.hazard_from) / shape.hazard_span, shape.hazard_cap)
    if hazard > 0 and place in (ASSISTANT, AGENT, ARGS):
        p = [(1 - hazard) * a for a in p]
        p[ENDCALL if place == ARGS else END] += hazard
    allowed = {END, CALL} if place == ENDCALL else set()
    if place == CALL:
        allowed = _name_tokens(h, tuple(h[specials[-1] + 1 :]))
    if allowed:
        kept = {v: p[v] + 1e-6 for v in allowed}
        p = [kept.get(v, 0.0) / sum(kept.values()) for v in range(len(p))]
    return p


def _length(h: list[int], specials: list[int], place: int | None) -> int:
    if place == ARGS:
        return len(h) - specials[-1] - 1
    for at in reversed(specials):
        if h[at] in (ASSISTANT, AGENT):
            return len(h) - at - 1
        if h[at] not in (CALL, ARGS, ENDCALL):
            return 0
    return 0


def _name_tokens(h: list[int], start: tuple[int, ...]) -> set[int]:
    names = []
    for at, token in enumerate(h):
        if token == TOOLS:
            names.append(h[at + 1 : h.index(ARGS, at)])
    n = len(start)
    return {([*name, ARGS])[n] for name in names if tuple(name[:n]) == start} or {ARGS}
