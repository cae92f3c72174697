"""The target model: an interpolated n-gram with a copy component, exact and batched.

For a history h the model gives p over the whole vocabulary:

1. n-grams of orders 1 to 5, interpolated (ngram.py);
2. p = (1 - m) p_ngram + m p_copy, where p_copy is what followed earlier occurrences of the last
   tokens (history.py) and m grows with the longest match;
3. the template's grammar: tokens that can't stand here get 0, the end token's odds grow with the
   reply's length, and what is left is renormalised;
4. past ``Shape.hazard_from`` tokens a share of the mass that grows with length goes to the end.

All of it is a function of the token history alone, so a scorer that is given the ids gets the same
p, whatever produced them and whatever else is in the batch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from loadjudge.reference.history import CONTEXT, History, Place, Query
from loadjudge.reference.ngram import NO_TOKEN, SHIFT, Counts
from loadjudge.reference.tokenizer import (
    ARGS,
    CALL,
    END,
    ENDCALL,
    FIRST_PIECE,
    FIRST_SPECIAL,
    Tokenizer,
)

_SCORE_ROWS = 128  # distributions at once when a whole text is scored: 1 MiB


@dataclass(frozen=True, slots=True)
class Shape:
    """The model's constants. ``copy_mass[l]`` is m for a longest match of l tokens.

    The odds of ending are multiplied by exp(``end_bias`` + length / ``end_scale``), at most by
    ``end_cap``; a call's arguments end likewise. From ``hazard_from`` tokens on, the end takes
    1 / ``hazard_span`` more of the mass with each token, at most ``hazard_cap``.
    """

    order: int = 5
    copy_mass: tuple[float, ...] = (0.0, 0.25, 0.40, 0.52, 0.60, 0.66, 0.70, 0.73, 0.75)
    end_bias: float = 0.7
    end_scale: float = 12.0
    end_cap: float = 3000.0
    hazard_from: int = 90
    hazard_span: float = 150.0
    hazard_cap: float = 0.6


TARGET = Shape()
DRAFT = Shape(order=3, copy_mass=(0.0, 0.1, 0.2, 0.3, 0.4, 0.4, 0.4, 0.4, 0.4))


class Target(Protocol):
    """What the scheduler draws from: the model, or something in its place."""

    def distributions(self, queries: Sequence[Query]) -> NDArray[np.float32]:
        """p for each query: float32 [N, V], rows summing to 1. The caller may write to it."""
        ...


@dataclass(frozen=True)
class Model:
    """``bigram`` float32 [V + 1, V]: p after each token, and in the last row without context."""

    tokenizer: Tokenizer
    counts: Counts
    bigram: NDArray[np.float32]
    shape: Shape

    def distributions(self, queries: Sequence[Query]) -> NDArray[np.float32]:
        """p for each query: float32 [N, V], rows summing to 1."""
        p = self._mixture(queries)
        self._constrain(p, queries)
        return p

    def _mixture(self, queries: Sequence[Query]) -> NDArray[np.float32]:
        vocab = self.bigram.shape[1]
        context = np.array([_padded(q.context) for q in queries], np.int64)
        copied = np.array([self.shape.copy_mass[q.match] for q in queries], np.float32)
        left = np.float32(1.0) - copied  # mass not given away yet, by row
        scatter: list[tuple[NDArray[np.int64], NDArray[np.float32]]] = []
        for order in range(self.shape.order, 2, -1):
            table = self.counts.tables[order - 2]
            if not len(table.keys):
                continue
            key = np.zeros(len(queries), np.int64)
            for back in range(1, order):
                key |= context[:, -back] << (SHIFT * (back - 1))
            at = np.minimum(np.searchsorted(table.keys, key), len(table.keys) - 1)
            rows = np.flatnonzero(table.keys[at] == key)
            at = at[rows]
            first, sizes = table.starts[at], table.starts[at + 1] - table.starts[at]
            ends = np.cumsum(sizes)
            entries = np.repeat(first - (ends - sizes), sizes) + np.arange(sizes.sum())
            where = np.repeat(rows * vocab, sizes) + table.tokens[entries]
            scatter.append((where, np.repeat(left[rows], sizes) * table.mass[entries]))
            left[rows] *= table.backoff[at]
        last = np.where(context[:, -1] == NO_TOKEN, vocab, context[:, -1])
        p: NDArray[np.float32] = self.bigram[last]
        p *= left[:, None]
        flat = p.reshape(-1)
        for where, mass in scatter:
            flat[where] += mass  # no pair occurs twice within an order
        copies = [
            (row * vocab + token, mass * weight)
            for row, (q, mass) in enumerate(zip(queries, copied.tolist(), strict=True))
            if mass > 0
            for token, weight in q.copies
        ]
        if copies:
            indices, masses = zip(*copies, strict=True)
            flat[np.array(indices)] += np.array(masses, np.float32)
        return p

    def _constrain(self, p: NDArray[np.float32], queries: Sequence[Query]) -> None:
        places = np.array([q.place for q in queries])
        # A call's arguments count from their own start, all else from the reply's.
        lengths = np.array(
            [q.length if q.place == Place.ARGS else q.reply for q in queries], np.float64
        )
        p[:, FIRST_SPECIAL:FIRST_PIECE] *= _POSSIBLE[places]
        shape = self.shape
        odds = np.exp(np.minimum(shape.end_bias + lengths / shape.end_scale, 50.0))
        odds = np.minimum(odds, shape.end_cap)
        odds[lengths == 0] = 0.0  # no empty reply
        p[:, END] *= odds
        p[:, ENDCALL] *= odds
        p /= p.sum(axis=1, keepdims=True)
        hazard = (lengths - shape.hazard_from) / shape.hazard_span
        for row in np.flatnonzero((hazard > 0) & _CAN_END[places]).tolist():
            share = min(float(hazard[row]), shape.hazard_cap)
            p[row] *= np.float32(1.0 - share)
            p[row, ENDCALL if places[row] == Place.ARGS else END] += np.float32(share)
        for row, query in enumerate(queries):
            if query.allowed:
                allowed = list(query.allowed)
                kept = p[row, allowed] + np.float32(1e-6)
                p[row] = 0.0
                p[row, allowed] = kept / kept.sum()

    def score(
        self, ids: Sequence[int], start: int = 0
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """p before each of ``ids[start:]``, in blocks: (position of the first row, [rows, V])."""
        history = History(ids[:start])
        pending: list[Query] = []
        for at, token in enumerate(ids[start:], start):
            pending.append(history.query())
            history.push(token)
            if len(pending) == _SCORE_ROWS or at == len(ids) - 1:
                yield at + 1 - len(pending), self.distributions(pending)
                pending = []


def build(tokenizer: Tokenizer, counts: Counts, shape: Shape = TARGET) -> Model:
    """A model from its counts; the dense bigram rows are made here."""
    vocab = tokenizer.size
    table = counts.tables[0]
    backoff = np.ones(vocab + 1, np.float32)
    backoff[table.keys] = table.backoff
    bigram = backoff[:, None] * counts.unigram
    rows = np.repeat(table.keys, np.diff(table.starts))
    bigram[rows, table.tokens] += table.mass
    return Model(tokenizer, counts, bigram, shape)


def _padded(context: tuple[int, ...]) -> tuple[int, ...]:
    if len(context) == CONTEXT:
        return context
    return (NO_TOKEN,) * (CONTEXT - len(context)) + context


def _possible() -> NDArray[np.float32]:
    """Which special tokens can stand at each place: [places, specials], 0 or 1."""
    table = np.zeros((len(Place), FIRST_PIECE - FIRST_SPECIAL), np.float32)
    for place, tokens in {
        Place.REPLY: (END,),
        Place.AGENT: (END, CALL),
        Place.NAME: (ARGS,),
        Place.ARGS: (ENDCALL,),
        Place.CALLED: (END, CALL),
    }.items():
        table[place, [token - FIRST_SPECIAL for token in tokens]] = 1.0
    return table


_POSSIBLE = _possible()
_CAN_END = np.array([p in (Place.REPLY, Place.AGENT, Place.ARGS) for p in Place])
