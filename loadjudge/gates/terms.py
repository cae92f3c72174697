"""What the target says of each token of a reply: from log-probabilities to Terms. Pure.

Design: statistics, section 2. A scorer gives the target's raw log-probabilities p at each of a
reply's n positions, in one of two forms:

- **whole**: ``logp_rows`` [n, V] in the order of token ids, ``ids_rows`` None;
- **the K likeliest**: ``logp_rows`` [n, K] with their ``ids_rows`` [n, K], in any order, and
  ``own`` [n], the reply's tokens' own log-probabilities, which engines give even where a token is
  not among the K.

Where the K give q (``is_exact``), both forms give the same terms. Where they don't, all tokens
beyond the K are taken together as one outcome, the *tail*, ranked last: its log-probability is
set to the K-th's, which none of its tokens reaches, and its mass to what the K leave over. The
terms then look at the reply through coarser glasses, and each keeps the mean that it has under
losslessness: log-likelihood, first choice, end, copy and rank all speak of the same coarse
outcomes. At temperature 1 without top k the tail's mass is known, so that those means are as
exact as with full logits; elsewhere it is an estimate, as though every token of the tail were
as likely as the K-th. Either way ``is_exact`` is False and the record says so.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from loadjudge.gates.lookup import NOTHING
from loadjudge.record.values import Floats, Terms
from loadjudge.wire.request import Sampling

Ids = NDArray[np.int64]
Rows = NDArray[np.float64] | NDArray[np.float32]

GREEDY_BELOW = 1e-5  # temperatures that vLLM and the embedded engine take as 0
_CELLS = 2**20  # of one chunk of positions: 8 MiB an array
_NOISE = 1e-6  # mass: the K sum to 1 but for float32's rounding, and there is no tail


def terms(
    logp_rows: Rows,
    ids_rows: Ids | None,
    reply_ids: Sequence[int],
    sampling: Sampling,
    end_ids: Sequence[int],
    own: Floats | None = None,
    copies: Ids | None = None,
) -> Terms:
    """Terms of a reply's n tokens. Shapes and forms: the module's docstring.

    Equal log-probabilities rank by token id. ``end_ids`` end a reply. ``copies`` [n] are what a
    prompt lookup proposes (lookup.py); None: nothing. Raises ValueError where a reply's token is
    not among the K and ``own`` is missing.
    """
    reply = np.asarray(reply_ids, np.int64)
    proposed = np.full(len(reply), NOTHING) if copies is None else copies
    ends = np.asarray(end_ids, np.int64)
    parts = []
    for at in _chunks(*logp_rows.shape):
        rows = _rows(logp_rows[at], None if ids_rows is None else ids_rows[at])
        of_own = None if own is None else own[at]
        parts.append(_terms(rows, reply[at], sampling, ends, of_own, proposed[at]))
    return joined(parts)


def is_exact(logp_rows: Rows, whole: bool, sampling: Sampling) -> bool:
    """Whether these log-probabilities give q itself at every position.

    They do where they are the whole distribution; at temperature 0; where top k keeps no more
    than K; and, at temperature 1 without top k, where the K already hold the mass ``top_p``.
    """
    k, kept = logp_rows.shape[1], _top_k(sampling)
    if whole or sampling.temperature < GREEDY_BELOW or 0 < kept <= k:
        return True
    if sampling.temperature != 1.0 or kept or sampling.top_p >= 1.0:
        return False
    return all(
        bool((np.exp(logp_rows[at].astype(np.float64)).sum(axis=1) >= sampling.top_p).all())
        for at in _chunks(*logp_rows.shape)
    )


def joined(parts: Sequence[Terms]) -> Terms:
    """Terms of consecutive parts of one reply as one."""
    none = np.empty(0, np.float64)
    return Terms(
        **{
            f.name: np.concatenate([none, *(getattr(part, f.name) for part in parts)])
            for f in fields(Terms)
        }
    )


@dataclass(frozen=True, slots=True)
class _Rows:
    """Some positions: ``logp`` float64 [r, K] in the order of ids; ``ids`` None: 0 to V − 1."""

    logp: Floats
    ids: Ids | None

    @property
    def whole(self) -> bool:
        return self.ids is None

    @property
    def columns(self) -> Ids:
        """Token ids of the columns: [r, K] or [1, V]."""
        return np.arange(self.logp.shape[1])[None, :] if self.ids is None else self.ids


@dataclass(frozen=True, slots=True)
class _Q:
    """``q`` [r, K] of the columns and ``tail`` [r] of all other tokens together; sums are 1."""

    q: Floats
    tail: Floats


def _chunks(rows: int, columns: int) -> Iterator[slice]:
    size = max(1, _CELLS // max(1, columns))
    return (slice(at, at + size) for at in range(0, rows, size))


def _rows(logp: Rows, ids: Ids | None) -> _Rows:
    logp = logp.astype(np.float64)
    if ids is None:
        return _Rows(logp, None)
    order = np.argsort(ids, axis=1)
    return _Rows(np.take_along_axis(logp, order, axis=1), np.take_along_axis(ids, order, axis=1))


def _terms(
    rows: _Rows, reply: Ids, sampling: Sampling, ends: Ids, own: Floats | None, copies: Ids
) -> Terms:
    logp, columns = rows.logp, rows.columns
    each = np.arange(len(reply))
    first = logp.argmax(axis=1)  # of equals the one with the lowest id
    sampled = _sampled(rows, first, sampling)
    q, tail = sampled.q, sampled.tail
    is_own = columns == reply[:, None]
    known, at = is_own.any(axis=1), is_own.argmax(axis=1)
    if own is None and not known.all():
        raise ValueError(
            f"token {reply[~known][0]} of the reply is not among the log-probabilities"
        )
    own_logp = np.where(known, logp[each, at], 0.0 if own is None else own)
    coarse = ~known & (tail > 0)  # the token was seen as the tail only
    least = np.where(tail > 0, logp.min(axis=1), 0.0)
    seen = np.where(q > 0, logp, 0.0)
    expected = (q * seen).sum(axis=1) + tail * least
    spread = (q * (seen - expected[:, None]) ** 2).sum(axis=1) + tail * (least - expected) ** 2
    ahead = (logp > own_logp[:, None]) | ((logp == own_logp[:, None]) & (columns < reply[:, None]))
    ahead |= ~known[:, None]
    return Terms(
        logp=np.where(coarse, least, own_logp),
        expected=expected,
        variance=spread,
        is_first=(known & (at == first)).astype(np.float64),
        q_first=q[each, first],
        is_end=(np.isin(reply, ends) & ~coarse).astype(np.float64),
        q_end=(q * np.isin(columns, ends)).sum(axis=1),
        q=np.where(known, q[each, at], tail),
        above=np.minimum((q * ahead).sum(axis=1), 1.0),
        is_copy=((reply == copies) & ~coarse).astype(np.float64),
        q_copy=(q * (columns == copies[:, None])).sum(axis=1),
    )


def _sampled(rows: _Rows, first: Ids, sampling: Sampling) -> _Q:
    """q as the request's sampling parameters make it from p."""
    logp = rows.logp
    if sampling.temperature < GREEDY_BELOW:
        q = np.zeros_like(logp)
        q[np.arange(len(q)), first] = 1.0
        return _Q(q, np.zeros(len(q)))
    top = logp.max(axis=1)
    kept = _kept(logp, _top_k(sampling))
    weight = np.where(kept, np.exp((logp - top[:, None]) / sampling.temperature), 0.0)
    tail = _tail(rows, top, sampling)
    total = weight.sum(axis=1) + tail
    sampled = _Q(weight / total[:, None], tail / total)
    return sampled if sampling.top_p >= 1.0 else _nucleus(sampled, sampling.top_p)


def _top_k(sampling: Sampling) -> int:
    """How many tokens top k keeps; 0: all (engines write it as 0 or −1, too)."""
    return max(0, sampling.top_k or 0)


def _kept(logp: Floats, k: int) -> NDArray[np.bool_]:
    """Which columns are among the k likeliest; of the k-th's equals those with the lowest ids."""
    columns = logp.shape[1]
    if not 0 < k < columns:
        return np.ones(logp.shape, np.bool_)
    kth = np.partition(logp, columns - k, axis=1)[:, columns - k]
    return _first(logp, np.full(len(logp), k), kth)


def _first(values: Floats, counts: Ids, least: Floats) -> NDArray[np.bool_]:
    """Which of ``values`` [r, K] are among the first ``counts`` [r] of their row, the last of
    which is ``least`` [r]; of its equals those with the lowest ids."""
    more, equal = values > least[:, None], values == least[:, None]
    room = counts - more.sum(axis=1)
    return np.asarray(more | (equal & (np.cumsum(equal, axis=1) <= room[:, None])), np.bool_)


def _tail(rows: _Rows, top: Floats, sampling: Sampling) -> Floats:
    """Weight of all tokens beyond the K, on the scale of exp((log p − top) / temperature): [r].

    The mass m that the K leave over is that of m / p_K tokens as likely as the K-th, at most as
    many as top k has room for.
    """
    k = rows.logp.shape[1]
    none = np.zeros(len(rows.logp))
    room = _top_k(sampling) - k
    if rows.whole or (_top_k(sampling) and room <= 0):
        return none
    least = rows.logp.min(axis=1)
    left = 1.0 - np.exp(rows.logp).sum(axis=1)
    count = np.log(np.maximum(left, _NOISE)) - least
    if room > 0:
        count = np.minimum(count, np.log(room))
    return np.where(left > _NOISE, np.exp(count + (least - top) / sampling.temperature), none)


def _nucleus(sampled: _Q, top_p: float) -> _Q:
    """The smallest set of first choices whose mass reaches ``top_p``, renormalised."""
    q = sampled.q
    ranked = -np.sort(-q, axis=1)
    before = np.cumsum(ranked, axis=1) - ranked
    before[:, 0] = -1.0  # the first choice always stays
    count = (before < top_p).sum(axis=1)
    kept = np.where(_first(q, count, ranked[np.arange(len(q)), count - 1]), q, 0.0)
    tail = np.clip(top_p - q.sum(axis=1), 0.0, sampled.tail)
    total = kept.sum(axis=1) + tail
    return _Q(kept / total[:, None], tail / total)
