"""The target behind a vLLM-compatible endpoint: ``prompt_logprobs`` of prompt and reply.

Every reply is one request of token ids. Requests go out many at a time and outside timed windows
(vLLM does not read its prefix cache for them). The event loop must still turn, for the engines'
watch: orjson holds the interpreter's lock, so that a thread would not help, and a process would
cost as much again to hand the values over. So the reply's entries are cut out of the bytes
(entries.py) and parsed a few at a time, with the loop let on in between. Only an endpoint that
writes its JSON with blanks is parsed in one go.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from loadjudge.client.http import PlainClient
from loadjudge.errors import JudgeError, Status
from loadjudge.gates.lookup import proposals
from loadjudge.gates.scorers.entries import Known, all_entries, known, last_entries
from loadjudge.gates.scorers.scorer import Refused, Unavailable
from loadjudge.gates.terms import GREEDY_BELOW, is_exact, joined, terms
from loadjudge.record.values import Terms
from loadjudge.wire.errortext import error_sentence
from loadjudge.wire.request import Sampling

_EXACT_ENTRIES = 2**20  # of one answer, 70 bytes each, where that many make it exact
_COARSE_ENTRIES = 2**18  # and where more of them only look closer
_FEW = 20  # vLLM's own limit
_BLOCK = 2**14  # entries parsed before the loop is let on: some 10 ms
_MOST_ALLOWED = re.compile(rb"max allowed: (\d+)")
_REFUSALS = frozenset({400, 404, 413, 422})


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the endpoint gives of a distribution: ``most`` tokens; ``whole``: that is all of it."""

    most: int
    whole: bool


async def endpoint_scorer(
    http: PlainClient,
    model: str,
    max_model_len: int | None,
    end_ids: Sequence[int],
    *,
    most: int = 1024,
    at_once: int = 8,
) -> "EndpointScorer":
    """A scorer of the endpoint, asked first what it gives.

    ``most`` bounds K where no K would be exact; ``at_once`` requests are in flight.
    Raises Unavailable, with the endpoint's reason, where it has no ``prompt_logprobs``.
    """
    allowed = await ask_allowed(http, model)
    return EndpointScorer(
        http, model, max_model_len, tuple(end_ids), allowed, most=most, at_once=at_once
    )


async def ask_allowed(http: PlainClient, model: str) -> Allowed:
    """The most log-probabilities a position that the endpoint gives. Raises Unavailable."""
    given, said = await _given(http, model, -1)
    if given > 1:
        return Allowed(given, True)
    named = _MOST_ALLOWED.search(said)
    why = _why(said)
    for k in (int(named[1]),) if named else (1024, 256, 100, _FEW, 5, 1):
        given, said = await _given(http, model, k)
        if given and k:
            return Allowed(min(given, k), False)
    raise Unavailable(f"the endpoint {http.endpoint.url} gives no prompt_logprobs: {why}")


async def _given(http: PlainClient, model: str, k: int) -> tuple[int, bytearray]:
    status, body = await http.completions_as_sent(_request(model, [0, 0], k))
    return (body.count(b'"logprob"') if status == 200 else 0), body


def _why(body: bytearray) -> str:
    return "it ignores them" if b'"choices"' in body else error_sentence(bytes(body))


def _request(model: str, ids: list[int], k: int) -> dict[str, Any]:
    # Not 0: an engine in another logprobs mode would apply it.
    sampled = {"temperature": 1.0, "top_p": 1.0, "max_tokens": 1}
    return {"model": model, "prompt": ids, "prompt_logprobs": k, **sampled}


class EndpointScorer:
    """Scores through one endpoint; made by ``endpoint_scorer``."""

    def __init__(
        self,
        http: PlainClient,
        model: str,
        max_model_len: int | None,
        end_ids: tuple[int, ...],
        allowed: Allowed,
        *,
        most: int = 1024,
        at_once: int = 8,
    ) -> None:
        self.name = f"the endpoint {http.endpoint.url}"
        self.end_ids = end_ids
        self.at_once = 2 * at_once  # of which half are being parsed, lest the server wait for that
        self._http = http
        self._model = model
        self._longest = None if max_model_len is None else max_model_len - 1  # one is generated
        self._allowed = allowed
        self._most = most
        self._gate = asyncio.Semaphore(at_once)
        self._held = asyncio.Semaphore(self.at_once)

    async def score(
        self, prompt_ids: Sequence[int], reply_ids: Sequence[int], sampling: Sampling
    ) -> tuple[Terms, bool]:
        """Terms, exact where ``k_for`` finds a K that makes them so (gates/terms.py)."""
        start = len(prompt_ids)
        ids = [*prompt_ids, *reply_ids][: self._longest]
        reply = ids[start:]
        if not start or (reply_ids and not reply):
            raise Refused("there is no room for the reply behind its prompt")
        if not reply:
            return joined([]), True
        copies = proposals(prompt_ids, reply)
        k = k_for(len(ids), sampling, self._allowed, self._most)
        per = k if k > 0 else self._allowed.most
        async with self._held:
            async with self._gate:
                body = await self._answer(_request(self._model, ids, k))
            parts, exact = [], True
            try:
                async for at, some in _blocks(body, reply, k, per):
                    self._check(some)
                    own = reply[at : at + len(some.own)]
                    copied = copies[at : at + len(own)]
                    parts.append(
                        terms(some.logp, some.ids, own, sampling, self.end_ids, some.own, copied)
                    )
                    exact = exact and is_exact(some.logp, some.ids is None, sampling)
            except ValueError as e:
                raise Unavailable(f"{self.name} answers with other prompt_logprobs: {e}") from None
        return joined(parts), exact

    async def _answer(self, request: dict[str, Any]) -> bytearray:
        status, body = await self._http.completions_as_sent(request)
        if status == 200:
            return body
        said = error_sentence(bytes(body))
        if status in _REFUSALS:
            raise Refused(f"{self.name} refuses to score a reply ({status}): {said}")
        raise JudgeError(f"{self.name} answered {status} when scoring: {said}", Status.RUN)

    def _check(self, some: Known) -> None:
        if (np.exp(np.minimum(some.logp, 1.0)).sum(axis=1) > 1.01).any():
            raise Unavailable(
                f"{self.name} gives prompt_logprobs that are no log-probabilities: start it "
                "with --logprobs-mode raw_logprobs"
            )


def k_for(positions: int, sampling: Sampling, allowed: Allowed, most: int) -> int:
    """How many log-probabilities to ask for at each of ``positions``; -1: all.

    Those that make q exact (top k, or all where the vocabulary is small), while an answer holds
    no more than 2^20 of them; else ``most``, fewer where the positions are many.
    """
    top_k = max(0, sampling.top_k or 0)
    if sampling.temperature < GREEDY_BELOW:
        return 1
    room = _EXACT_ENTRIES // positions
    if 0 < top_k <= min(allowed.most, max(_FEW, room)):
        return top_k
    if allowed.whole and allowed.most <= room:
        return -1
    return min(most, allowed.most, max(_FEW, _COARSE_ENTRIES // positions))


async def _blocks(
    body: bytearray, reply: list[int], k: int, per: int
) -> AsyncIterator[tuple[int, Known]]:
    """The reply's entries of about ``per`` values, some at a time: the place of the first in the
    reply, and their values.

    Raises ValueError where the body is not as vLLM's.
    """
    n = len(reply)
    size = max(1, _BLOCK // per)
    pieces = last_entries(body, n)
    entries: Sequence[Any] = () if pieces else (await asyncio.to_thread(all_entries, body))[-n:]
    for at in range(0, n, size):
        part = pieces[at : at + size] if pieces else ()
        some = [orjson.loads(piece) for piece in part] if part else entries[at : at + size]
        yield at, known(some, reply[at : at + size], k)
        await asyncio.sleep(0)
