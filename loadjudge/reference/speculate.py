"""Speculation: what is proposed, what is accepted, and what replaces a rejected token.

Leviathan et al. 2023 (arXiv 2211.17192): a draft token x from d is accepted with probability
min(1, q(x) / d(x)); the first rejected one is replaced by a draw from max(0, q - d) renormalised;
if all are accepted, one more is drawn from q. Every token then has distribution q, whatever d is.
Each rule is a function of its own, so that a test can put a wrong one in its place.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from loadjudge.reference.history import History
from loadjudge.reference.model import Model
from loadjudge.reference.sampling import Choices, Ids, Sampling, choices, draw, uniforms

# Streams of a request's randomness, see sampling.py. A position's acceptance is decided once,
# whichever step gets there, so a rejected tail's unused numbers are free to be used again.
SAMPLE, ACCEPT, DRAFT = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Draft:
    """Tokens proposed for one sequence; ``d`` is their distributions, one row a token, or
    ``None`` where the drafter was certain of each."""

    tokens: tuple[int, ...]
    d: Choices | None = None


NO_DRAFT = Draft(())


@dataclass(frozen=True, slots=True)
class Ask:
    """One sequence that wants a draft of up to ``room`` tokens. ``position``: of the next token
    among the reply's."""

    history: History
    sampling: Sampling
    seed: int
    position: int
    room: int


class Drafter(Protocol):
    """Proposes tokens. Histories are as they were when it returns."""

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        """One draft an ask."""
        ...


@dataclass(frozen=True, slots=True)
class PromptLookup:
    """Proposes what followed the longest earlier occurrence of the last tokens, the most recent
    of equally long ones: a point mass at each position."""

    tokens: int
    longest: int = 5
    shortest: int = 2

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        """See ``Drafter``."""
        return [self._look_up(ask.history, min(self.tokens, ask.room)) for ask in asks]

    def _look_up(self, history: History, room: int) -> Draft:
        best, start = self.shortest - 1, -1
        for at, length in history.matches(self.longest, len(history.tokens), min(2, self.shortest)):
            if length > best:
                best, start = length, at
        if start < 0 or room < 1:
            return NO_DRAFT
        return Draft(tuple(history.tokens[start : start + room]))


@dataclass(frozen=True, slots=True)
class DraftModel:
    """Samples from a smaller model under the request's own sampling parameters."""

    model: Model
    tokens: int

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        """See ``Drafter``."""
        tokens: list[list[int]] = [[] for _ in asks]
        rows: list[list[Choices]] = [[] for _ in asks]
        for step in range(self.tokens):
            live = [i for i, ask in enumerate(asks) if ask.room > step]
            if not live:
                break
            p = self.model.distributions([asks[i].history.query() for i in live])
            for sampling, group in grouped([asks[i].sampling for i in live]):
                chosen = choices(p[group], sampling)
                members = [live[j] for j in group.tolist()]
                u = uniforms(
                    np.array([asks[i].seed for i in members], np.uint64),
                    np.array([asks[i].position + step for i in members], np.int64),
                    DRAFT,
                )
                for j, (i, token) in enumerate(zip(members, draw(chosen, u).tolist(), strict=True)):
                    asks[i].history.push(token)
                    tokens[i].append(token)
                    rows[i].append(chosen.rows(slice(j, j + 1)))
        for ask, proposed in zip(asks, tokens, strict=True):
            for _ in proposed:
                ask.history.pop()
        return [
            Draft(tuple(t), _stack(r)) if t else NO_DRAFT for t, r in zip(tokens, rows, strict=True)
        ]


def grouped(keys: Sequence[Sampling]) -> list[tuple[Sampling, Ids]]:
    """Row numbers by sampling parameters, which most requests share."""
    groups: dict[Sampling, list[int]] = {}
    for row, key in enumerate(keys):
        groups.setdefault(key, []).append(row)
    return [(key, np.array(rows, np.int64)) for key, rows in groups.items()]


def accepts(q: float, d: float, u: float) -> bool:
    """Whether a draft token is accepted: with probability min(1, q / d)."""
    return u * d < q


def residual(q: Choices, token: int, d: Choices | None) -> Choices:
    """max(0, q - d), one row, not renormalised; d ``None`` is a point mass at ``token``."""
    if d is None:
        left = q.q * (q.ids != token)
        return Choices(q.ids, left if left.any() else q.q)  # a wrong rule rejected what was certain
    drafted = np.zeros(max(int(q.ids.max()), int(d.ids.max())) + 1)
    drafted[d.ids[0]] = d.q[0]
    left = np.maximum(0.0, q.q - drafted[q.ids])
    return Choices(q.ids, left if left.any() else q.q)  # q = d up to rounding


@dataclass(frozen=True, slots=True)
class Rules:
    """The two rules of rejection sampling."""

    accepts: Callable[[float, float, float], bool] = accepts
    residual: Callable[[Choices, int, Choices | None], Choices] = residual


LOSSLESS = Rules()


def verify(
    q: Choices,
    drafts: Sequence[Draft],
    seeds: Sequence[int],
    positions: Sequence[int],
    rules: Rules = LOSSLESS,
) -> list[list[int]]:
    """Tokens of one verify step, by sequence: the accepted part of its draft and one more.

    ``q`` has len(draft) + 1 rows a sequence, in order; ``positions`` are those of the first row.
    """
    sizes = [len(draft.tokens) + 1 for draft in drafts]
    ends = np.cumsum(sizes).tolist()
    proposed = np.array([t for draft in drafts for t in (*draft.tokens, -1)], np.int64)
    of_draft = q.of(proposed).tolist()
    row_seeds = np.repeat(np.array(seeds, np.uint64), sizes)
    row_positions = np.array(
        [first + i for first, size in zip(positions, sizes, strict=True) for i in range(size)],
        np.int64,
    )
    u = uniforms(row_seeds, row_positions, ACCEPT).tolist()
    kept: list[int] = []  # tokens accepted, by sequence
    last_rows = np.empty(len(drafts), np.int64)
    weights = np.empty((len(drafts), q.q.shape[1]))
    for s, (draft, end, size) in enumerate(zip(drafts, ends, sizes, strict=True)):
        first = end - size
        d_of_draft = _own_probabilities(draft)
        n = 0
        for i in range(size - 1):
            if not rules.accepts(of_draft[first + i], d_of_draft[i], u[first + i]):
                break
            n += 1
        row = first + n
        chosen = q.rows(slice(row, row + 1))
        if n < len(draft.tokens):
            d_row = None if draft.d is None else draft.d.rows(slice(n, n + 1))
            chosen = rules.residual(chosen, draft.tokens[n], d_row)
        kept.append(n)
        last_rows[s] = row
        weights[s] = chosen.q[0]
    final = draw(
        Choices(q.ids[last_rows], weights),
        uniforms(row_seeds[last_rows], row_positions[last_rows], SAMPLE),
    ).tolist()
    return [[*draft.tokens[:n], x] for draft, n, x in zip(drafts, kept, final, strict=True)]


def _own_probabilities(draft: Draft) -> list[float]:
    if draft.d is None:
        return [1.0] * len(draft.tokens)
    return [float(d) for d in draft.d.of(np.array(draft.tokens, np.int64))]


def _stack(rows: Sequence[Choices]) -> Choices:
    return Choices(np.concatenate([r.ids for r in rows]), np.concatenate([r.q for r in rows]))
