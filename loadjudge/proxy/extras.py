"""What the proxy does beside passing through: recording, mirroring, splitting, scoring."""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from loadjudge.client.endpoint import parse_endpoint
from loadjudge.errors import JudgeError, Status
from loadjudge.proxy.exchange import Exchange
from loadjudge.proxy.frames import Frame
from loadjudge.proxy.heads import RequestHead, values_of
from loadjudge.proxy.helper import Helper
from loadjudge.proxy.live import Incidents, Mirror, Recording, Scoring
from loadjudge.proxy.meter import CHAT, Measured
from loadjudge.proxy.options import Options
from loadjudge.proxy.recording import Recorded
from loadjudge.proxy.relay import Choice, Done
from loadjudge.proxy.splitting import asked_of, to_candidate, with_token_ids
from loadjudge.record.values import ARMS, Arm

_PAIRS = 4096  # requests whose mirrored half is still awaited
_SESSIONS = 16_384
_AB_S = 5.0  # the live statistics are worked out anew after so long


class Extras:
    """One place for all of it, so that the proxy itself stays a proxy."""

    def __init__(
        self, options: Options, incidents: Incidents, observe: Callable[[Exchange], None]
    ) -> None:
        if options.mirror is not None and options.split is not None:
            raise JudgeError(
                "--mirror and --split can't go together: a mirrored candidate sees all requests, "
                "and the split one would be loaded twice",
                Status.USAGE,
            )
        self._options = options
        self._incidents = incidents
        self._observe = observe
        self._recorded = Recorded(options.record, incidents) if options.record else None
        # Mirrored requests by number: our half once it is over, and theirs where it came first.
        self._pairs: OrderedDict[int, Exchange | None] = OrderedDict()
        self._halves: OrderedDict[int, Exchange] = OrderedDict()
        self._number = 0
        self._split: Counter[Arm] = Counter(dict.fromkeys(ARMS, 0))
        self._sessions: OrderedDict[str, None] = OrderedDict()  # of late, to count each once
        self._live: Any = None
        self._ab: tuple[float, list[dict[str, Any]]] = (-_AB_S, [])
        self._mirror_state: dict[str, Any] = {}
        self._mirror_drops: Counter[str] = Counter()
        self._scoring_state: dict[str, Any] = {}
        self._scoring_drops: Counter[str] = Counter()
        self._mirror = self._made_mirror()
        self._scoring = self._made_scoring()
        other = options.mirror or options.split
        self.candidate = None if other is None else parse_endpoint(other.url).url

    async def start(self) -> None:
        """Starts the helpers. Raises JudgeError where one can't work."""
        if self.candidate is not None:
            # Imports scipy, which takes long: not when the page is first asked for.
            from loadjudge.proxy.live_ab import Live

            self._live = Live()
        if self._recorded is not None:
            await self._recorded.start()
        for helper in (self._mirror, self._scoring):
            if helper is not None:
                await helper.start()

    async def stop(self) -> None:
        """Ends them; all that is recorded is written."""
        for helper in (self._mirror, self._scoring):
            if helper is not None:
                await helper.stop(5.0)
        if self._recorded is not None:
            await self._recorded.stop()

    # --- for relays

    def wants_body(self, head: RequestHead) -> bool:
        if self._mirror is not None:
            return head.method == b"POST"
        return self._recorded is not None and _is_chat(head)

    def waits_for_body(self, head: RequestHead) -> bool:
        return self._options.split is not None and _is_chat(head)

    def choose(self, head: RequestHead, body: bytes | None) -> Choice:
        """The arm of a request. What belongs to no conversation goes to the upstream."""
        split = self._options.split
        asked = asked_of(body) if split is not None and body is not None else None
        if split is None or body is None or asked is None:
            return Choice("stock")
        chosen = to_candidate(asked.session, split.share, self._options.seed)
        arm: Arm = "candidate" if chosen else "stock"
        if asked.session not in self._sessions:
            self._split[arm] += 1
        self._sessions[asked.session] = None
        self._sessions.move_to_end(asked.session)
        if len(self._sessions) > _SESSIONS:
            self._sessions.popitem(last=False)
        plain = not values_of(head.fields, b"content-encoding")
        ask = split.ask_token_ids and plain and not asked.ids
        return Choice(arm, asked.session, with_token_ids(body) if ask else None, asked.sampling)

    def asked(self, head: RequestHead, body: bytes | None) -> int | None:
        """A whole request is on its way: the mirror gets it. Its number, where it is mirrored."""
        if self._mirror is None or head.method != b"POST":
            return None
        if body is None:
            self._mirror_drops["a request too large to be kept"] += 1
            return None
        self._number += 1
        frame = {
            "number": self._number,
            "method": head.method.decode("latin-1"),
            "target": head.target.decode("latin-1"),
            "fields": [(k.decode("latin-1"), v.decode("latin-1")) for k, v in head.fields],
        }
        if not self._mirror.send(frame, body):
            self._mirror_drops["the mirror can't keep up"] += 1
            return None
        self._pairs[self._number] = None
        if len(self._pairs) > _PAIRS:
            self._pairs.popitem(last=False)
        return self._number

    def over(self, done: Done, measured: Measured) -> None:
        """An exchange that is over and measured."""
        exchange = measured.exchange
        if self._recorded is not None and _is_chat(done.head) and exchange.status == 200:
            coding = values_of(done.head.fields, b"content-encoding").decode("latin-1")
            why = f"a reply that is not whole: {exchange.error or measured.why or 'unread'}"
            self._recorded.take(done.body, coding, measured.reply, why[:80])
        if done.number is not None and done.number in self._pairs:
            self._pairs[done.number] = exchange
            self._pair_up(done.number)
        if self._options.split is not None and exchange.session is not None:
            self._add(exchange, exchange.session)
            self._offer(done, measured)

    # --- for the page and the exporter

    def recording_state(self) -> Recording | None:
        return None if self._recorded is None else self._recorded.state()

    def mirror_state(self) -> Mirror | None:
        if self._mirror is None:
            return None
        state = self._mirror_state
        return Mirror(
            queued=state.get("queued", 0),
            in_flight=state.get("in_flight", 0),
            sent=state.get("sent", 0),
            drops=dict(self._mirror_drops + Counter(state.get("drops", {}))),
        )

    def scoring_state(self) -> Scoring | None:
        if self._scoring is None:
            return None
        state = self._scoring_state
        return Scoring(
            replies=state.get("replies", dict.fromkeys(ARMS, 0)),
            waiting=state.get("waiting", 0),
            drops=dict(self._scoring_drops + Counter(state.get("drops", {}))),
            verdict=state.get("verdict"),
        )

    def split_sessions(self) -> dict[Arm, int] | None:
        return None if self._options.split is None else dict(self._split)

    def live_ab(self) -> list[dict[str, Any]]:
        """The arms' ratios, at most some seconds old."""
        if self._live is None:
            return []
        now = time.monotonic()
        if now - self._ab[0] > _AB_S:
            ratios = self._live.ratios(paired=self._mirror is not None)
            self._ab = (now, [asdict(ratio) for ratio in ratios])
        return self._ab[1]

    # ---

    def _made_mirror(self) -> Helper | None:
        mirror = self._options.mirror
        if mirror is None:
            return None
        first = {
            "url": parse_endpoint(mirror.url).url,
            "in_flight": mirror.in_flight,
            "queue": mirror.queue,
            "answer_s": self._options.limits.answer_s,
            "share_key": self._options.share_key,
            "insecure": self._options.insecure,
        }
        return Helper(
            "loadjudge.proxy.mirroring", first, self._from_mirror, self._trouble_of("the mirror")
        )

    def _made_scoring(self) -> Helper | None:
        split = self._options.split
        if split is None or not split.score:
            return None
        first = {
            "url": parse_endpoint(self._options.upstream).url,
            "insecure": self._options.insecure,
            "most": split.score,
            "bound": split.bound,
            "seed": self._options.seed,
        }
        return Helper(
            "loadjudge.proxy.scoring", first, self._from_scoring, self._trouble_of("the scorer")
        )

    def _trouble_of(self, who: str) -> Callable[[str], None]:
        return lambda what: self._incidents.tell(who.removeprefix("the "), f"{who}: {what}")

    def _from_mirror(self, frame: Frame) -> None:
        head = frame[0]
        if "state" in head:
            drops = sum(head["state"]["drops"].values())
            if drops > sum(self._mirror_state.get("drops", {}).values()):
                self._incidents.tell("mirror", f"the candidate can't keep up: {drops} dropped")
            self._mirror_state = head["state"]
            return
        exchange = Exchange(**head["done"])
        if exchange.error is not None:
            self._incidents.tell("candidate", f"{exchange.path}: {head['why'][:300]}")
        self._observe(exchange)
        number = head["number"]
        if number in self._pairs:
            self._pair_up(number, exchange)

    def _pair_up(self, number: int, mirrored: Exchange | None = None) -> None:
        """Counts a pair once both of its halves are there and went well."""
        ours = self._pairs.get(number)
        waiting = self._halves.pop(number, None) if mirrored is None else mirrored
        if ours is None:
            if mirrored is not None:
                self._halves[number] = mirrored
                if len(self._halves) > _PAIRS:
                    self._halves.popitem(last=False)
            return
        if waiting is None:
            return
        del self._pairs[number]
        if ours.error is None and waiting.error is None and waiting.session is not None:
            self._add(ours, waiting.session, waiting)

    def _add(self, exchange: Exchange, session: str, other: Exchange | None = None) -> None:
        """Adds an exchange, or a pair of them, to the live statistics."""
        both = [exchange] if other is None else [exchange, other]
        if any(one.error is not None for one in both):
            return
        for name in ("ttft_s", "tpot_s", "e2el_s", "output_tokens"):
            values = [getattr(one, name) for one in both]
            if any(value is None for value in values):
                continue
            for one, value in zip(both, values, strict=True):
                weight = float(one.output_tokens or 1) if name == "tpot_s" else 1.0
                self._live.add(one.arm, session, name, weight, float(value))

    def _offer(self, done: Done, measured: Measured) -> None:
        """Offers a reply to the scorer, where it carries what scoring needs."""
        reply = measured.reply
        if self._scoring is None or reply is None:
            return
        if done.sampling is None:
            self._scoring_drops["the request does not say how tokens are drawn"] += 1
        elif not reply.token_ids or not reply.prompt_token_ids:
            self._scoring_drops["no token ids (see --ask-token-ids)"] += 1
        else:
            self._scoring.send(
                {
                    "arm": measured.exchange.arm,
                    "session": done.session,
                    "model": reply.model,
                    "sampling": asdict(done.sampling),
                    "prompt_ids": list(reply.prompt_token_ids),
                    "reply_ids": list(reply.token_ids),
                }
            )

    def _from_scoring(self, frame: Frame) -> None:
        self._scoring_state = frame[0]


def _is_chat(head: RequestHead) -> bool:
    return head.method == b"POST" and head.path == CHAT
