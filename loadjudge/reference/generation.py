"""One generation request: runs it from its prompt's ids on, and streams or collects its reply."""

import random
import time
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from loadjudge.reference.chat import Delta, ReplyParser, StopStrings
from loadjudge.reference.engine import Engine
from loadjudge.reference.errors import ApiError
from loadjudge.reference.logprobs import scored
from loadjudge.reference.model import Model
from loadjudge.reference.redteam import TRUE_REPORT, Report
from loadjudge.reference.replies import Kind, Writer, usage
from loadjudge.reference.request import Request
from loadjudge.reference.schema import ChatRequest, CompletionRequest, Generation
from loadjudge.reference.tokenizer import StreamDecoder, Tokenizer, is_special


@dataclass(frozen=True, slots=True)
class Piece:
    """What one verify step adds to a reply, in the protocol's terms."""

    delta: Delta
    ids: tuple[int, ...]
    finish: str | None


class _PlainText:
    """A plain completion's text: special tokens leave no trace, as in vLLM."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._decoder = StreamDecoder(tokenizer)
        self.content = ""
        self.calls: list[tuple[str, str]] = []

    def feed(self, ids: Sequence[int], *, last: bool = False) -> Delta:
        text = "".join(self._decoder.feed(token) for token in ids if not is_special(token))
        if last:
            text += self._decoder.flush()
        self.content += text
        return Delta(text, ())


class Reply:
    """A reply in the making. ``content``, ``calls``, ``ids`` and ``finish`` are what it came to."""

    def __init__(
        self,
        engine: Engine,
        tokenizer: Tokenizer,
        body: Generation,
        kind: Kind,
        prompt: Sequence[int],
        arrived: float,
        report: Report = TRUE_REPORT,
    ) -> None:
        self._engine = engine
        self._report = report
        self._parser = ReplyParser(tokenizer) if kind == "chat" else _PlainText(tokenizer)
        self._stops = StopStrings(body.stops())
        self._arrived = arrived
        self.request = _request(engine, body, prompt)
        self.content = ""
        self.ids: list[int] = []
        self.finish: str | None = None
        self.cached = 0

    @property
    def calls(self) -> list[tuple[str, str]]:
        """Calls so far: (name, arguments)."""
        return self._parser.calls

    async def pieces(self) -> AsyncGenerator[Piece]:
        """The reply, one piece a verify step."""
        async with aclosing(self._engine.generate(self.request, self._arrived)) as outputs:
            async for output in outputs:
                self.cached = output.cached
                ids = self._report.ids(output.tokens)
                self.ids += ids
                delta = self._parser.feed(output.tokens, last=output.finish is not None)
                text, stopped = self._stops.feed(delta.content, last=output.finish is not None)
                self.content += text
                finish = "stop" if stopped else output.finish
                if finish == "stop" and self.calls and not stopped:
                    finish = "tool_calls"
                self.finish = finish
                yield Piece(Delta(text, delta.calls), ids, finish)
                if stopped:
                    return

    def usage(self) -> dict[str, Any]:
        """Token counts so far."""
        return usage(len(self.request.prompt), self._report.usage(len(self.ids)), self.cached)


def _request(engine: Engine, body: Generation, prompt: Sequence[int]) -> Request:
    limit = engine.scheduler.limits.max_model_len
    room = limit - len(prompt)
    wanted = body.max_tokens
    if isinstance(body, ChatRequest):
        wanted = body.max_completion_tokens or wanted
    elif wanted is None:
        wanted = min(16, room)  # OpenAI's default for plain completions
    if not prompt:
        raise ApiError(400, "the prompt is empty")
    if room < (wanted or 1):
        raise ApiError(
            400,
            f"This model's maximum context length is {limit} tokens. However, you requested "
            f"{wanted or 1} output tokens and your prompt contains {len(prompt)} input tokens, "
            "for more in all. Please reduce the length of the input or the output.",
        )
    return Request(
        id=uuid.uuid4().hex,
        prompt=tuple(prompt),
        sampling=body.sampling(),
        seed=(random.getrandbits(64) if body.seed is None else body.seed) % 2**64,
        max_tokens=wanted or room,
        min_tokens=body.min_tokens,
        ignore_eos=body.ignore_eos,
        cache_salt=body.cache_salt,
        reuse=body.prompt_logprobs is None,
    )


async def stream(
    request: web.Request, body: Generation, reply: Reply, writer: Writer
) -> web.StreamResponse:
    """Sends a reply as server-sent events."""
    options = body.stream_options
    running = options is not None and options.continuous_usage_stats
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    opened = False
    async with aclosing(reply.pieces()) as pieces:
        async for piece in pieces:
            events = []
            if not opened:
                await response.prepare(request)
                events.append(writer.first())
            events.append(writer.chunk(piece.delta, piece.ids, piece.finish, opening=not opened))
            if running:
                events = [event and event | {"usage": reply.usage()} for event in events]
            if piece.finish and options is not None and options.include_usage:
                events.append(writer.closing(reply.usage()))
            data = b"".join(b"data: " + orjson.dumps(e) + b"\n\n" for e in events if e is not None)
            await response.write(data + b"data: [DONE]\n\n" if piece.finish else data)
            opened = True
    await response.write_eof()
    return response


async def collect(model: Model, body: Generation, reply: Reply, writer: Writer) -> dict[str, Any]:
    """The body of a reply that is sent whole, log-probabilities included if wanted."""
    async with aclosing(reply.pieces()) as pieces:
        async for _ in pieces:
            pass
    out = writer.whole(reply.content, reply.calls, reply.ids, reply.finish, reply.usage())
    prompt = reply.request.prompt
    if body.prompt_logprobs is not None:
        entries = [None, *scored(model, prompt, body.prompt_logprobs, start=1)]
        target = out if isinstance(body, ChatRequest) else out["choices"][0]
        target["prompt_logprobs"] = entries
    wanted = _logprobs_wanted(body)
    if wanted is not None:
        of_reply = scored(model, [*prompt, *reply.ids], wanted, start=len(prompt))
        listed = [list(entry.values()) for entry in of_reply]
        if isinstance(body, ChatRequest):
            logprobs: dict[str, Any] = {"content": [_chat_logprob(e, wanted) for e in listed]}
        else:
            logprobs = {
                "tokens": [e[0]["decoded_token"] for e in listed],
                "token_logprobs": [e[0]["logprob"] for e in listed],
                "top_logprobs": [{v["decoded_token"]: v["logprob"] for v in e} for e in listed],
            }
        out["choices"][0]["logprobs"] = logprobs
    return out


def _logprobs_wanted(body: Generation) -> int | None:
    if isinstance(body, ChatRequest):
        return (body.top_logprobs or 0) if body.logprobs else None
    return body.logprobs if isinstance(body, CompletionRequest) else None


def _chat_logprob(entry: list[dict[str, Any]], top: int) -> dict[str, Any]:
    def value(of: dict[str, Any]) -> dict[str, Any]:
        token = of["decoded_token"]
        return {"token": token, "logprob": of["logprob"], "bytes": list(token.encode())}

    ranked = sorted(entry, key=lambda of: int(of["rank"]))[:top]
    return value(entry[0]) | {"top_logprobs": [value(of) for of in ranked]}


@dataclass(frozen=True, slots=True)
class RequestLog:
    """A JSONL file, one line a request when it is over, for tests to read."""

    path: Path

    def write(self, body: Generation, reply: Reply, writer: Writer) -> None:
        """Appends a line; ``finish_reason`` is "abort" where the client went away."""
        line = {
            "t": time.time(),
            "messages": getattr(body, "messages", None),
            "tools": getattr(body, "tools", None),
            "prompt_tokens": len(reply.request.prompt),
            "cached_tokens": reply.cached,
            "content": reply.content,
            "tool_calls": writer.tool_calls(reply.calls),
            "token_ids": reply.ids,
            "finish_reason": reply.finish or "abort",
            "max_tokens": reply.request.max_tokens,
            "cache_salt": reply.request.cache_salt,
            "seed": reply.request.seed,
            "scoring": body.prompt_logprobs is not None,
        }
        with self.path.open("ab") as file:
            file.write(orjson.dumps(line) + b"\n")
