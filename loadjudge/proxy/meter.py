"""Reads what passes, beside the pass-through: times, tokens, and the reply itself."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from loadjudge.proxy.decoding import Decoder, Unreadable, decoder_of
from loadjudge.proxy.exchange import Exchange, known_path
from loadjudge.proxy.heads import AnswerHead
from loadjudge.proxy.upstream import ErrorKind
from loadjudge.record.values import Arm
from loadjudge.wire.reply import Reply
from loadjudge.wire.sse import EventDecoder
from loadjudge.wire.stream import ReplyDecoder, StreamError
from loadjudge.wire.whole import whole_reply

LARGEST = 32 << 20  # bytes of one answer that are read; what comes after passes unread
CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
_PUT_OFF_S = 0.002  # what 64 chunks take to pass; well under the time between an engine's steps


@dataclass(frozen=True, slots=True)
class Measured:
    """An exchange, and the reply where it was a whole one of a chat."""

    exchange: Exchange
    reply: Reply | None
    why: str  # it is in words, where something went wrong


class Meter:
    """One exchange. It never raises for what passes: what can't be read is unknown."""

    def __init__(self, arm: Arm, path: str, *, mirrored: bool = False) -> None:
        self.arm: Arm = arm
        self.t_sent_ns: int | None = None
        self.added_ns: int | None = None
        self.request_bytes = 0
        self._path = known_path(path)
        self._mirrored = mirrored
        self._status: int | None = None
        self._stream = False
        self._decode: Decoder | None = None
        self.unread: str | None = None  # why the body isn't read
        self.bytes_read = 0  # as they passed, compressed or not
        self._chat = ReplyDecoder() if self._path == CHAT else None
        self._text = TextStream() if self._path == COMPLETIONS else None
        self._body: list[bytes] = []

    def head(self, head: AnswerHead) -> None:
        """The head of the answer."""
        self._status = head.status
        kind = head.field(b"content-type").lower()
        self._stream = head.status == 200 and "event-stream" in kind
        try:
            self._decode = decoder_of(head.field(b"content-encoding"))
        except Unreadable as error:
            self.unread = str(error)

    def feed(self, data: bytes, t_ns: int) -> None:
        """Some of its body."""
        self.bytes_read += len(data)
        if self.unread is not None or self._decode is None:
            return
        if self.bytes_read > LARGEST:
            self.unread = f"an answer of over {LARGEST} bytes"
            self._body.clear()
            return
        try:
            data = self._decode(data)
        except Unreadable as error:
            self.unread = str(error)
            return
        if not self._stream:
            self._body.append(data)
        elif self._chat is not None:
            self._chat.feed(data, t_ns)
        elif self._text is not None:
            self._text.feed(data, t_ns)

    def finish(
        self, error: ErrorKind | None, why: str, t_ns: int, session: str | None = None
    ) -> Measured:
        """What it came to. ``error``: what kept the answer from being whole, if anything did."""
        reply: Reply | None = None
        if error is None and self._status is not None and self._status >= 400:
            error, why = "http", f"status {self._status}"
        if self.unread is None:
            try:
                reply = self._reply(whole=error is None)
            except StreamError as wrong:
                if error is None:
                    error, why = wrong.kind, wrong.message
        times = self._times(reply, t_ns)
        usage = reply.usage if reply else None
        ids = reply.token_ids if reply else None
        exchange = Exchange(
            arm=self.arm,
            mirrored=self._mirrored,
            path=self._path,
            status=self._status,
            error=error,
            stream=self._stream,
            model=reply.model if reply else None,
            prompt_tokens=usage.prompt_tokens if usage else None,
            output_tokens=len(ids) if ids else usage.completion_tokens if usage else None,
            ttft_s=times.ttft_s,
            ttfot_s=times.ttfot_s,
            itl_s=times.itl_s,
            itl_tokens=times.itl_tokens,
            tpot_s=times.tpot_s,
            e2el_s=times.e2el_s if error is None else None,
            seconds=None if self.t_sent_ns is None else (t_ns - self.t_sent_ns) / 1e9,
            added_s=None if self.added_ns is None else self.added_ns / 1e9,
            request_bytes=self.request_bytes,
            answer_bytes=self.bytes_read,
            session=session,
        )
        whole = self._chat is not None and error is None
        return Measured(exchange, reply if whole else None, why or self.unread or "")

    def _reply(self, *, whole: bool) -> Reply | None:
        """The reply so far. Raises StreamError where it should be whole and is not."""
        if self._stream:
            if self._chat is not None:
                return self._chat.finish() if whole else self._chat.so_far()
            return self._text.so_far() if self._text is not None else None
        if not whole or self._status != 200:
            return None
        if self._chat is not None:
            return whole_reply(b"".join(self._body))
        return _with_usage(b"".join(self._body))

    def _times(self, reply: Reply | None, t_ns: int) -> "_Times":
        sent = self.t_sent_ns
        if sent is None:
            return _Times()
        if reply is None or not reply.arrivals:
            return _Times(e2el_s=(t_ns - sent) / 1e9)
        arrivals = reply.arrivals
        first, last = arrivals[0].t_ns, arrivals[-1].t_ns
        content = reply.t_first_content_ns
        tokens = _tokens(reply)
        gaps, weights = _gaps(arrivals_ns=[a.t_ns for a in arrivals], tokens=tokens)
        rest = sum(tokens[1:]) if tokens else 0
        return _Times(
            ttft_s=(first - sent) / 1e9,
            ttfot_s=None if content is None else (content - sent) / 1e9,
            itl_s=gaps,
            itl_tokens=weights,
            tpot_s=(last - first) / 1e9 / rest if rest > 0 else None,
            e2el_s=(last - sent) / 1e9,
        )


@dataclass(frozen=True, slots=True)
class _Times:
    ttft_s: float | None = None
    ttfot_s: float | None = None
    itl_s: tuple[float, ...] = ()
    itl_tokens: tuple[float, ...] = ()
    tpot_s: float | None = None
    e2el_s: float | None = None


def _tokens(reply: Reply) -> list[float]:
    """Tokens of each arrival; empty where nobody says how many there are.

    Ids tell. Without them the reported count is shared out by characters: exact in sum,
    approximate in place.
    """
    arrivals = reply.arrivals
    if all(a.tokens is not None for a in arrivals):
        return [float(a.tokens or 0) for a in arrivals]
    total = reply.usage.completion_tokens if reply.usage else None
    if total is None:
        return []
    characters = sum(a.chars for a in arrivals)
    return [total * a.chars / max(characters, 1) for a in arrivals]


def _gaps(
    arrivals_ns: list[int], tokens: list[float]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Inter-token latencies and their weights: k tokens after a gap g are k latencies of g/k."""
    gaps, weights = [], []
    before = arrivals_ns[0]
    for now, k in zip(arrivals_ns[1:], tokens[1:], strict=False):
        if k > 0:
            gaps.append((now - before) / 1e9 / k)
            weights.append(k)
            before = now
    return tuple(gaps), tuple(weights)


def _with_usage(body: bytes) -> Reply | None:
    """Model and token counts of an answer of another kind; None where it isn't JSON."""
    decoder = TextStream()
    decoder.take(body)
    return decoder.so_far()


class TextStream:
    """A streamed plain completion, as far as times and token counts go. Never raises."""

    def __init__(self) -> None:
        self._events = EventDecoder()
        self._chat = ReplyDecoder()

    def feed(self, data: bytes, t_ns: int) -> None:
        """Its events as a chat's: ``text`` stands where ``delta.content`` would."""
        for event in self._events.feed(data):
            self._chat.feed(b"data: " + _as_chat(event.data) + b"\n\n", t_ns)

    def take(self, body: bytes) -> None:
        """A body that is no stream: only its model and usage count."""
        try:
            value = orjson.loads(body)
        except orjson.JSONDecodeError:
            return
        if isinstance(value, dict) and isinstance(value.get("usage"), dict):
            kept = {"model": value.get("model"), "usage": value["usage"]}
            self._chat.feed(b"data: " + orjson.dumps(kept) + b"\n\n", 0)

    def so_far(self) -> Reply:
        return self._chat.so_far()


def _as_chat(data: bytes) -> bytes:
    try:
        value = orjson.loads(data)
        for choice in value["choices"]:
            choice["delta"] = {"content": choice.pop("text", None)}
        return orjson.dumps(value)
    except (orjson.JSONDecodeError, AttributeError, LookupError, TypeError):
        return data.replace(b"\n", b" ")


class Beside:
    """Work put off until what comes has been passed on: an engine sends a token of each reply at
    every step, all of them at once, and reading the first must not keep back the last.

    What goes wrong in it never reaches the pass-through: ``on_defect`` is told.
    """

    def __init__(self, on_defect: Callable[[BaseException], None]) -> None:
        self._on_defect = on_defect
        self._waiting: list[Callable[[], None]] = []
        self._pieces: list[tuple[Meter, bytes, int]] = []

    def feed(self, meter: Meter, data: bytes, t_ns: int) -> None:
        """A piece of a body for its meter."""
        self._put_off()
        self._pieces.append((meter, data, t_ns))

    def later(self, work: Callable[[], None]) -> None:
        """Anything that must follow the pieces so far."""
        self._put_off()
        self._waiting.append(work)

    def _put_off(self) -> None:
        if not self._pieces and not self._waiting:
            asyncio.get_running_loop().call_later(_PUT_OFF_S, self.work)

    def work(self) -> None:
        """Does it now."""
        pieces, self._pieces = self._pieces, []
        waiting, self._waiting = self._waiting, []
        for meter, data, t_ns in pieces:
            try:
                meter.feed(data, t_ns)
            except Exception as error:  # a defect of ours must not touch what passes
                self._on_defect(error)
        for work in waiting:
            try:
                work()
            except Exception as error:
                self._on_defect(error)
