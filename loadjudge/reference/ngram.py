"""Counting: n-gram tables from token streams, with numpy.

Interpolation after Witten and Bell (1991): in a context h seen ``count`` times with ``types``
different next tokens, p(v | h) = (1 - b) c(h, v) / count + b p(v | shorter h), where
b = types / (types + count).
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadjudge.reference.tokenizer import AGENT, ASSISTANT, SYSTEM, TOOL, TOOLS, USER

SHIFT = 12  # bits a token in a context's key; the vocabulary is smaller than 4,095
NO_TOKEN = (1 << SHIFT) - 1  # stands where a context is shorter; no key contains it
MAX_ORDER = 5
_FLOOR = 1e-3  # of the unigrams' mass, spread over all tokens

HEADERS = (SYSTEM, USER, TOOL, TOOLS, ASSISTANT, AGENT)


@dataclass(frozen=True)
class Table:
    """One order's contexts. C contexts, E (context, token) pairs.

    ``keys`` int64 [C], ascending; ``starts`` int64 [C + 1]; ``tokens`` int64 [E] and ``mass``
    float32 [E]: (1 - b) c / count; ``backoff`` float32 [C]: b.
    """

    keys: NDArray[np.int64]
    starts: NDArray[np.int64]
    tokens: NDArray[np.int64]
    mass: NDArray[np.float32]
    backoff: NDArray[np.float32]


@dataclass(frozen=True)
class Counts:
    """``unigram`` float32 [V]; ``tables[n - 2]`` is order n's, n = 2 to ``MAX_ORDER``."""

    unigram: NDArray[np.float32]
    tables: tuple[Table, ...]


def count(streams: Iterable[list[int]], vocab: int) -> Counts:
    """Counts of ``streams``. A header token is context but never counted as a next token."""
    parts: list[NDArray[np.int64]] = []
    for stream in streams:
        parts += [np.full(MAX_ORDER, NO_TOKEN, np.int64), np.asarray(stream, np.int64)]
    tokens = np.concatenate(parts) if parts else np.full(MAX_ORDER, NO_TOKEN, np.int64)
    target = np.flatnonzero(~np.isin(tokens, (*HEADERS, NO_TOKEN)))
    key = np.zeros(len(target), np.int64)
    complete = np.ones(len(target), bool)
    tables = []
    for order in range(2, MAX_ORDER + 1):
        back = order - 1
        context = tokens[target - back]
        key |= context << (SHIFT * (back - 1))
        complete &= context != NO_TOKEN
        tables.append(_table(key[complete], tokens[target][complete]))
    return Counts(_unigram(tokens[target], vocab), tuple(tables))


def _unigram(targets: NDArray[np.int64], vocab: int) -> NDArray[np.float32]:
    seen = np.bincount(targets, minlength=vocab).astype(np.float64)
    # The floor differs from token to token, so that tokens seen equally often are no exact ties.
    floor = 1.0 + np.arange(vocab, dtype=np.float64) / vocab
    floor[list(HEADERS)] = 0.0
    p = (1.0 - _FLOOR) * seen / max(1.0, seen.sum()) + _FLOOR * floor / floor.sum()
    return np.asarray(p / p.sum(), np.float32)


def _table(keys: NDArray[np.int64], targets: NDArray[np.int64]) -> Table:
    pairs, seen = np.unique(keys << SHIFT | targets, return_counts=True)
    contexts, first = np.unique(pairs >> SHIFT, return_index=True)
    starts = np.append(first, len(pairs)).astype(np.int64)
    types = np.diff(starts)
    totals = np.add.reduceat(seen, first) if len(first) else np.zeros(0, np.int64)
    backoff = types / np.maximum(1, types + totals)
    mass = seen * np.repeat((1.0 - backoff) / np.maximum(1, totals), types)
    return Table(
        keys=contexts,
        starts=starts,
        tokens=pairs & NO_TOKEN,
        mass=mass.astype(np.float32),
        backoff=backoff.astype(np.float32),
    )
