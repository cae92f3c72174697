"""From p to q: what a request's sampling parameters make of the model's distribution.

q follows statistics.md section 2: divide log-probabilities by the temperature, keep the top k,
renormalise, keep the smallest set whose mass reaches top_p (the first choice always stays),
renormalise. Equal probabilities rank by token id.

Randomness comes from a counter: u = hash(seed, position, stream). A reply thus depends on its
prompt and seed alone, not on what else is in the batch, on preemption or on the clock. With
speculation it depends on where drafts stood as well: a position is drawn by another stream with a
draft than without, and a preemption or a full step may cut one. Its distribution is the same.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

_GREEDY_BELOW = 1e-5  # as vLLM


@dataclass(frozen=True, slots=True)
class Sampling:
    """``top_k`` 0 keeps all; ``temperature`` 0 takes the first choice."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0


@dataclass(frozen=True, slots=True)
class Choices:
    """q of N rows, each over K tokens: ``ids`` int64 [N, K], ``q`` float64 [N, K], rows sum to 1.

    Columns rank from the first choice on, except where nothing is cut off (then by id)."""

    ids: Ids
    q: Floats

    def of(self, tokens: Ids) -> Floats:
        """q of one token a row: [N]."""
        return np.asarray((self.q * (self.ids == tokens[:, None])).sum(axis=1), np.float64)

    def rows(self, rows: Ids | slice) -> "Choices":
        """Some of the rows."""
        return Choices(self.ids[rows], self.q[rows])


class Sampler(Protocol):
    """Makes q of p [N, V] under a request's parameters."""

    def __call__(self, p: NDArray[np.float32], sampling: Sampling) -> Choices:
        """q of each row."""
        ...


def choices(p: NDArray[np.float32], sampling: Sampling) -> Choices:
    """q of each row of ``p`` [N, V]."""
    rows, vocab = p.shape
    if sampling.temperature < _GREEDY_BELOW:
        return Choices(p.argmax(axis=1)[:, None].astype(np.int64), np.ones((rows, 1)))
    if 0 < sampling.top_k < vocab:
        ids = top_ids(p, sampling.top_k)
    elif sampling.top_p < 1.0:
        ids = top_ids(p, vocab)
    else:
        ids = np.broadcast_to(np.arange(vocab), p.shape)
    q = np.take_along_axis(p, ids, axis=1).astype(np.float64)
    if sampling.temperature != 1.0:
        q = (q / q.max(axis=1, keepdims=True)) ** (1.0 / sampling.temperature)
    q /= q.sum(axis=1, keepdims=True)
    if sampling.top_p < 1.0:
        before = np.cumsum(q, axis=1) - q
        before[:, 0] = -1.0
        q[before >= sampling.top_p] = 0.0
        q /= q.sum(axis=1, keepdims=True)
    return Choices(ids, q)


def top_ids(p: NDArray[np.float32], k: int) -> Ids:
    """The k likeliest tokens of each row, likeliest first, ties by id: int64 [N, k]."""
    if k >= p.shape[1]:
        return _ranked(p)
    rows, vocab = p.shape
    least = np.partition(p, vocab - k, axis=1)[:, vocab - k, None]
    taken = p >= least
    surplus = taken.sum(axis=1) - k
    if surplus.any():  # equals of the k-th: those with the highest ids go
        equal = p == least
        from_right = np.cumsum(equal[:, ::-1], axis=1)[:, ::-1]
        taken &= ~(equal & (from_right <= surplus[:, None]))
    ids = np.asarray(np.flatnonzero(taken) % vocab, np.int64).reshape(rows, k)
    values = np.take_along_axis(p, ids, axis=1)
    order = np.argsort(-values, axis=1, kind="stable")
    return np.asarray(np.take_along_axis(ids, order, axis=1), np.int64)


def _ranked(p: NDArray[np.float32]) -> Ids:
    """All tokens of each row, likeliest first, ties by id.

    The bits of floats that are not negative order as the floats do; with the id below them, one
    sort of integers gives both, some five times as fast as a stable argsort.
    """
    keys = (~np.ascontiguousarray(p, np.float32).view(np.uint32)).astype(np.uint64)
    keys <<= np.uint64(32)
    keys |= np.arange(p.shape[1], dtype=np.uint64)
    keys.sort(axis=1)
    return (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)


def draw(chosen: Choices, u: Floats) -> Ids:
    """One token a row by inversion; ``u`` [N] uniform on [0, 1). Weights needn't sum to 1."""
    cumulated = np.cumsum(chosen.q, axis=1)
    target = u * cumulated[:, -1]
    column = (cumulated <= target[:, None]).sum(axis=1)
    # Rounding may leave the target at the very top: then the last token with any weight.
    over = np.flatnonzero(column >= chosen.q.shape[1])
    for row in over:
        column[row] = np.flatnonzero(chosen.q[row])[-1]
    return np.asarray(chosen.ids[np.arange(len(column)), column], np.int64)


def uniforms(seeds: NDArray[np.uint64], positions: Ids, stream: int) -> Floats:
    """Uniforms on [0, 1), one an element, by splitmix64's finaliser (Steele et al. 2014)."""
    with np.errstate(over="ignore"):
        x = _mix(seeds + np.uint64(0x9E3779B97F4A7C15) * np.uint64(stream + 1))
        x = _mix(x + np.uint64(0x9E3779B97F4A7C15) * positions.astype(np.uint64))
    return (x >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
