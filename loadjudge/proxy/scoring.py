"""The scoring helper: ``python -m loadjudge.proxy.scoring``. The likelihood gate on live replies.

A bounded random sample of both arms' replies that carry their token ids is scored by the upstream,
one at a time. A process of its own: terms of a reply are heavy, and it must not hold up users.
"""

import asyncio
import os
import random
from collections import Counter
from typing import Any, cast

from loadjudge.client.http import PlainClient
from loadjudge.client.loop import run
from loadjudge.errors import JudgeError
from loadjudge.gates.gaps import LIKELIHOOD, excess_gap, plain_gap
from loadjudge.gates.likelihood import judge
from loadjudge.gates.scorers.endpoint import EndpointScorer, endpoint_scorer
from loadjudge.gates.scorers.scorer import Refused
from loadjudge.proxy.frames import FrameDecoder, encoded
from loadjudge.proxy.helper import parents_end
from loadjudge.record.evaluation import Limits
from loadjudge.record.values import ARMS, Arm, ScoredReply
from loadjudge.wire.request import Sampling

_WAITING = 8  # replies of an arm


class Scores(asyncio.Protocol):
    """Replies in, the gate's figures out."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self._frames = FrameDecoder()
        self._transport: asyncio.Transport | None = None
        self._first: dict[str, Any] | None = None
        self._waiting: dict[Arm, list[dict[str, Any]]] = {arm: [] for arm in ARMS}
        self._scored: list[ScoredReply] = []
        self._counted: Counter[Arm] = Counter()
        self._working: Counter[Arm] = Counter()
        self._seen: Counter[Arm] = Counter()  # since the last one was taken
        self._drops: Counter[str] = Counter()
        self._something = asyncio.Event()
        self._http: PlainClient | None = None
        self._scorer: EndpointScorer | None = None
        self._verdict: str | None = None
        self._random = random.Random()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        for head, _ in self._frames.feed(data):
            if self._first is None:
                self._first = head
                self._random.seed(head["seed"])
            elif head.get("end"):
                self.gone.set()
            else:
                self._take(head)

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set()

    def _take(self, reply: dict[str, Any]) -> None:
        """Keeps a random few of those that came since the last one was scored."""
        arm: Arm = reply["arm"]
        assert self._first is not None
        if self._counted[arm] + len(self._waiting[arm]) + self._working[arm] >= self._first["most"]:
            self._drops["the sample is full"] += 1
            return
        waiting = self._waiting[arm]
        self._seen[arm] += 1
        if len(waiting) < _WAITING:
            waiting.append(reply)
        else:
            self._drops["not in the sample"] += 1
            at = self._random.randrange(self._seen[arm])
            if at < _WAITING:
                waiting[at] = reply
        self._something.set()

    async def work(self) -> None:
        """Scores one after the other, the arm that has fewer first."""
        while True:
            self._tell()
            arms = sorted(
                (arm for arm in ARMS if self._waiting[arm]), key=self._counted.__getitem__
            )
            if not arms:
                self._something.clear()
                await self._something.wait()
                continue
            arm = arms[0]
            reply = self._waiting[arm].pop(self._random.randrange(len(self._waiting[arm])))
            self._seen[arm] = len(self._waiting[arm])
            self._working[arm] = 1
            try:
                await self._score(arm, reply)
            except Refused:
                self._drops["the scorer refuses it"] += 1
            except JudgeError as error:
                self._verdict = f"not available: {error.sentence}"
                self._drops["the scorer can't be had"] += 1
                await asyncio.sleep(10)  # it may come back
            finally:
                self._working[arm] = 0

    async def _score(self, arm: Arm, reply: dict[str, Any]) -> None:
        assert self._first is not None
        if self._scorer is None:
            self._scorer = await self._made(reply["model"])
        sampling, ids = Sampling(**reply["sampling"]), reply["reply_ids"]
        terms, exact = await self._scorer.score(reply["prompt_ids"], ids, sampling)
        self._counted[arm] += 1
        number = self._counted[arm]
        self._scored.append(
            ScoredReply(arm, "live", 0, reply["session"], str(number), 0, terms, exact)
        )
        self._verdict = self._judged()

    async def _made(self, name: str | None) -> EndpointScorer:
        assert self._first is not None
        if self._http is None:
            self._http = PlainClient(
                self._first["url"],
                api_key=os.environ.get("OPENAI_API_KEY"),
                insecure=self._first["insecure"],
            )
        model = await self._http.model(name)
        # End tokens matter to other gates only.
        return await endpoint_scorer(self._http, model.id, model.max_model_len, (), at_once=1)

    def _judged(self) -> str | None:
        """The verdict falls once, when the sample is full: a verdict at each of many looks would
        raise false alarms. Until then the figures are told."""
        assert self._first is not None
        plain = plain_gap(self._scored, LIKELIHOOD)
        if plain is None:
            return None
        full = min(self._counted[arm] for arm in ARMS) >= self._first["most"]
        limits = Limits(excess_likelihood_bound=self._first["bound"] if full else None)
        gate = judge(plain, excess_gap(self._scored, LIKELIHOOD), limits)
        if full and self._first["bound"] is not None:
            return f"{gate.verdict}: {gate.sentence}"
        return gate.sentence.removesuffix("; this task sets no limit")

    def _tell(self) -> None:
        if self._transport is not None:
            state = {
                "replies": {arm: self._counted[arm] for arm in ARMS},
                "waiting": sum(map(len, self._waiting.values())),
                "drops": dict(self._drops),
                "verdict": self._verdict,
            }
            self._transport.write(encoded(state))


async def main() -> None:
    """Lives as long as the proxy's end of the pair."""
    scores = Scores()
    peer = parents_end()
    peer.setblocking(False)
    await asyncio.get_running_loop().create_connection(lambda: scores, sock=peer)
    working = asyncio.ensure_future(scores.work())
    gone = asyncio.ensure_future(scores.gone.wait())
    await asyncio.wait([working, gone], return_when=asyncio.FIRST_COMPLETED)
    if working.done():
        working.result()
    working.cancel()


if __name__ == "__main__":
    run(main())
