"""Scored replies whose truth is known, for tests and for bench: drawn from a synthetic target.

Each session has a sharpness of its own, as topics have, so plain means vary from session to
session while excesses don't. A token's distributions depend on its place alone, so an attack is
a function from the target's rows to the rows that tokens are drawn from.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from loadjudge.record.values import Arm, Floats, ScoredReply, Terms

PROPOSED = 1  # the token that a prompt lookup proposes everywhere

Attack = Callable[[Floats, Floats], Floats]  # raw p, sampling q → what is drawn from; [rows, V]


@dataclass(frozen=True, slots=True)
class Target:
    """A synthetic target and how it is asked. Token 0 ends a reply."""

    vocabulary: int = 16
    mean_length: float = 24.0
    max_length: int = 60
    temperature: float = 1.0
    top_p: float = 1.0


def softmax(logits: Floats) -> Floats:
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True))


def sampling(p: Floats, target: Target) -> Floats:
    """The sampling distribution that follows from p. Design: statistics, section 2."""
    q = softmax(np.log(p) / target.temperature)
    if target.top_p < 1:
        order = np.argsort(-q, axis=-1)
        ranked = np.take_along_axis(q, order, -1)
        kept = np.cumsum(ranked, -1) - ranked < target.top_p
        mask = np.zeros_like(kept)
        np.put_along_axis(mask, order, kept, -1)
        q = np.where(mask, q, 0.0)
        q /= q.sum(-1, keepdims=True)
    return q


def replies(
    rng: np.random.Generator,
    arm: Arm,
    *,
    target: Target = Target(),
    sessions: int = 24,
    turns: int = 3,
    attack: Attack | None = None,
    seed: int = 0,
    workload: str = "solo",
) -> list[ScoredReply]:
    """One pass of an arm: ``turns`` replies of each session. ``seed`` makes the sessions."""
    topics = np.random.default_rng([seed, 17]).lognormal(0.4, 0.45, sessions)
    n = sessions * turns
    sharpness = np.repeat(topics, turns)[:, None, None]
    logits = sharpness * rng.standard_normal((n, target.max_length, target.vocabulary))
    p = softmax(logits[..., 1:])
    hazard = np.clip(rng.gamma(2, 0.5, (n, target.max_length, 1)) / target.mean_length, 1e-4, 0.9)
    p = np.concatenate([hazard, p * (1 - hazard)], -1)
    q = sampling(p, target)
    drawn_from = q if attack is None else attack(p, q)
    y = (drawn_from.cumsum(-1) > rng.random((n, target.max_length, 1))).argmax(-1)
    ends = y == 0
    lengths = np.where(ends.any(1), ends.argmax(1) + 1, target.max_length)
    terms = _terms(p, q, y)
    return [
        ScoredReply(
            arm=arm,
            workload=workload,
            number=0,
            session=f"s{i // turns}",
            play=f"s{i // turns}#0",
            turn=i % turns,
            terms=Terms(**{k: v[i, : lengths[i]] for k, v in terms.items()}),
            exact=True,
        )
        for i in range(n)
    ]


def _terms(
    p: Floats, q: Floats, y: np.ndarray[tuple[int, ...], np.dtype[np.int64]]
) -> dict[str, Floats]:
    logp = np.log(p)
    at = y[..., None]
    expected = (q * logp).sum(-1)
    first = p.argmax(-1)
    p_y = np.take_along_axis(p, at, -1)
    return {
        "logp": np.take_along_axis(logp, at, -1)[..., 0],
        "expected": expected,
        "variance": np.maximum((q * logp**2).sum(-1) - expected**2, 0.0),
        "is_first": (y == first).astype(np.float64),
        "q_first": np.take_along_axis(q, first[..., None], -1)[..., 0],
        "is_end": (y == 0).astype(np.float64),
        "q_end": q[..., 0],
        "q": np.take_along_axis(q, at, -1)[..., 0],
        "above": np.where(p > p_y, q, 0.0).sum(-1),
        "is_copy": (y == PROPOSED).astype(np.float64),
        "q_copy": q[..., PROPOSED],
    }


def tempered(factor: float) -> Attack:
    """Drawn at another temperature than asked for."""
    return lambda p, q: softmax(np.log(np.maximum(q, 1e-300)) / factor)


def unfiltered(p: Floats, q: Floats) -> Floats:
    """top_p and top_k ignored."""
    return p


def greedy(share: float) -> Attack:
    """The target's first choice is forced in a share of the tokens."""

    def attack(p: Floats, q: Floats) -> Floats:
        first = (q == q.max(-1, keepdims=True)).astype(np.float64)
        return np.asarray((1 - share) * q + share * first / first.sum(-1, keepdims=True))

    return attack


def shy(share: float) -> Attack:
    """The target's first choice is that much less likely than it should be."""

    def attack(p: Floats, q: Floats) -> Floats:
        less = np.where(q == q.max(-1, keepdims=True), (1 - share) * q, q)
        return np.asarray(less / less.sum(-1, keepdims=True))

    return attack


def lenient(factor: float) -> Attack:
    """What a lookup proposes is accepted ``factor`` times as readily as it should be."""

    def attack(p: Floats, q: Floats) -> Floats:
        taken = np.minimum(factor * q[..., PROPOSED : PROPOSED + 1], 0.99)
        others = np.maximum(1 - q[..., PROPOSED : PROPOSED + 1], 1e-12)
        drawn = q * (1 - taken) / others
        drawn[..., PROPOSED] = taken[..., 0]
        return np.asarray(drawn)

    return attack


def ended(factor: float) -> Attack:
    """Replies end ``factor`` times as readily as they should."""

    def attack(p: Floats, q: Floats) -> Floats:
        end = np.minimum(factor * q[..., :1], 0.95)
        return np.concatenate([end, q[..., 1:] * (1 - end) / (1 - q[..., :1])], -1)

    return attack


def noisy(scale: float, seed: int = 5) -> Attack:
    """A quantised target: noise of standard deviation ``scale`` on its logits."""

    def attack(p: Floats, q: Floats) -> Floats:
        noise = np.random.default_rng(seed).normal(0, scale, q.shape)
        return softmax(np.log(np.maximum(q, 1e-300)) + noise)

    return attack
