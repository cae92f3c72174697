"""``prompt_logprobs`` of a completion, from bytes to arrays. No I/O.

vLLM answers with the whole prompt's entries; wanted are the last n, the reply's. With a large K
the others are nearly all of tens of MB, so the last n are cut out of the bytes and only they are
parsed. In compact JSON entries meet in ``}},{"`` and the digit of a token id: inside a string
the quote would be escaped, or end the string, and then no digit follows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from loadjudge.gates.terms import Ids
from loadjudge.record.values import Floats

_BETWEEN = b'}},{"'
_OPENING = b'"prompt_logprobs":[null,{'


@dataclass(frozen=True, slots=True)
class Known:
    """Log-probabilities at n positions: ``logp`` and ``ids`` [n, K], ``own`` [n] in nats.

    ``ids`` None: all V of them, in the order of ids.
    """

    logp: Floats
    ids: Ids | None
    own: Floats


def last_entries(body: bytes | bytearray, n: int) -> list[bytes | bytearray] | None:
    """The last n entries, each as JSON; None where the body is not compact JSON of that shape."""
    ends = body.rfind(b"}}]")
    opening = body.find(_OPENING)
    if ends < 0 or opening < 0 or n < 1:
        return None
    first = opening + len(_OPENING) - 1
    found: list[bytes | bytearray] = []
    end, at = ends + 2, ends
    while len(found) < n:
        at = body.rfind(_BETWEEN, first, at)
        if at >= 0 and not body[at + 5 : at + 6].isdigit():
            continue  # in a token's text
        start = first if at < 0 else at + 3
        found.append(body[start:end])
        end = at + 2
        if at < 0:
            break
    if len(found) < n or not _parses(found[0]):
        return None  # such as where a later text holds what looks like the list's end
    return found[::-1]


def _parses(piece: bytes | bytearray) -> bool:
    try:
        orjson.loads(piece)
    except orjson.JSONDecodeError:
        return False
    return True


def all_entries(body: bytes | bytearray) -> Sequence[Any]:
    """Every entry, parsed, of JSON in any form. Raises ValueError where it is something else."""
    try:
        entries = orjson.loads(body)["choices"][0]["prompt_logprobs"]
    except (LookupError, TypeError) as e:
        raise ValueError(f"no prompt_logprobs in it ({type(e).__name__}: {e})") from None
    if not isinstance(entries, list):
        raise ValueError("its prompt_logprobs are no list")
    return entries


def known(entries: Sequence[Any], reply_ids: Sequence[int], asked: int) -> Known:
    """Arrays of parsed entries, one a reply token; ``asked`` of each, -1 for all.

    Raises ValueError where an entry has another shape or lacks the reply's own token.
    """
    ids: list[Ids] = []
    logs: list[Floats] = []
    own: list[float] = []
    for entry, token in zip(entries, reply_ids, strict=True):
        try:
            of_own = float(entry[str(token)]["logprob"])
            some = np.array(list(map(int, entry)), np.int64)
            logp = np.array([value["logprob"] for value in entry.values()], np.float64)
        except (LookupError, TypeError, AttributeError) as e:
            raise ValueError(f"an entry is unlike vLLM's ({type(e).__name__}: {e})") from None
        if len(some) > asked >= 0:  # the reply's own token, beside the likeliest
            beside = some != token
            some, logp = some[beside], logp[beside]
        ids.append(some)
        logs.append(logp)
        own.append(of_own)
    k = min(map(len, ids), default=0)
    if any(len(some) != k for some in ids):
        for i, logp in enumerate(logs):
            likeliest = np.argsort(-logp, kind="stable")[:k]
            ids[i], logs[i] = ids[i][likeliest], logp[likeliest]
    return _in_order(np.array(logs), np.array(ids), np.array(own), asked)


def _in_order(logp: Floats, ids: Ids, own: Floats, asked: int) -> Known:
    if asked >= 0 or not ids.size or ids.max() != ids.shape[1] - 1:
        return Known(logp, ids, own)
    return Known(np.take_along_axis(logp, np.argsort(ids, axis=1), axis=1), None, own)
