"""vLLM's HTTP surface over the engine."""

import hmac
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import orjson
from aiohttp import web
from pydantic import BaseModel, ValidationError

from loadjudge import __version__
from loadjudge.reference.chat import render
from loadjudge.reference.engine import Engine
from loadjudge.reference.errors import ApiError
from loadjudge.reference.generation import Reply, RequestLog, collect, stream
from loadjudge.reference.inflight import InFlight
from loadjudge.reference.metrics import exposition
from loadjudge.reference.model import Model
from loadjudge.reference.redteam import TRUE_REPORT, Report
from loadjudge.reference.replies import Kind, Writer
from loadjudge.reference.schema import (
    ChatRequest,
    CompletionRequest,
    DetokenizeRequest,
    Generation,
    TokenizeRequest,
    message_of,
)

_Body = TypeVar("_Body", bound=BaseModel)
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_LARGEST_BODY = 64 * 2**20


class Server:
    """Routes and what they share. ``model`` tokenizes and scores; the engine generates. ``report``:
    what replies come with beside their text."""

    def __init__(
        self,
        engine: Engine,
        model: Model,
        name: str,
        api_key: str | None = None,
        log: RequestLog | None = None,
        report: Report = TRUE_REPORT,
    ) -> None:
        self._engine = engine
        self._model = model
        self._name = name
        self._api_key = api_key
        self._log = log
        self._report = report
        self._inflight = InFlight()
        self._started = int(time.time())

    def app(self) -> web.Application:
        """The application; it starts and stops the engine with itself."""
        app = web.Application(client_max_size=_LARGEST_BODY, middlewares=[self._guard])
        app.cleanup_ctx.append(self._life)
        app.add_routes(
            [
                web.get("/health", self._health),
                web.get("/ping", self._health),
                web.get("/version", self._version),
                web.get("/metrics", self._metrics),
                web.get("/v1/models", self._models),
                web.post("/v1/chat/completions", self._chat),
                web.post("/v1/completions", self._completions),
                web.post("/tokenize", self._tokenize),
                web.post("/detokenize", self._detokenize),
                web.post("/reset_prefix_cache", self._reset_prefix_cache),
                web.get("/reference/inflight", self._read_inflight),
                web.post("/reference/inflight/reset", self._reset_inflight),
            ]
        )
        return app

    async def _life(self, _app: web.Application) -> AsyncIterator[None]:
        self._engine.start()
        yield
        await self._engine.stop()

    @web.middleware
    async def _guard(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        try:
            if self._api_key is not None and request.path.startswith("/v1"):
                given = request.headers.get("Authorization", "")
                if not hmac.compare_digest(given.encode(), f"Bearer {self._api_key}".encode()):
                    raise ApiError(401, "the API key is missing or wrong")
            return await handler(request)
        except ApiError as error:
            return _json(error.body(), error.status)
        except web.HTTPException as error:
            return _json(ApiError(error.status, error.reason).body(), error.status)

    # --- generation

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        arrived = time.monotonic()
        body = await _parse(request, ChatRequest)
        if not body.messages:
            raise ApiError(400, "messages is empty")
        prompt = self._render(body.messages, body.offered_tools(), body.add_generation_prompt)
        return await self._generate(request, body, "chat", prompt, arrived)

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        arrived = time.monotonic()
        body = await _parse(request, CompletionRequest)
        if isinstance(body.prompt, str):
            prompt = self._model.tokenizer.encode(body.prompt)
        else:
            prompt = self._known(body.prompt)
        return await self._generate(request, body, "completion", prompt, arrived)

    async def _generate(
        self, request: web.Request, body: Generation, kind: Kind, prompt: list[int], arrived: float
    ) -> web.StreamResponse:
        if body.model is not None and body.model != self._name:
            raise ApiError(404, f"The model `{body.model}` does not exist.")
        if body.stream and body.prompt_logprobs is not None:
            raise ApiError(400, "prompt_logprobs is not available when stream is true")
        reply = Reply(
            self._engine, self._model.tokenizer, body, kind, prompt, arrived, self._report
        )
        writer = Writer(kind, self._name, bool(body.return_token_ids), prompt)
        with self._inflight.one():
            try:
                if body.stream:
                    return await stream(request, body, reply, writer)
                return _json(await collect(self._model, body, reply, writer))
            except ValueError as error:
                raise ApiError(400, str(error)) from error
            except RuntimeError as error:
                raise ApiError(500, str(error)) from error
            finally:
                if self._log is not None:
                    self._log.write(body, reply, writer)

    # --- tokens

    def _render(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], generate: bool
    ) -> list[int]:
        try:
            return render(self._model.tokenizer, messages, tools, generate=generate)
        except (ValueError, AttributeError, TypeError) as error:
            raise ApiError(400, f"messages or tools: {error}") from error

    def _known(self, ids: list[int]) -> list[int]:
        size = self._model.tokenizer.size
        wrong = next((i for i in ids if not 0 <= i < size), None)
        if wrong is not None:
            raise ApiError(400, f"Token id {wrong} is out of vocabulary")
        return ids

    async def _tokenize(self, request: web.Request) -> web.Response:
        body = await _parse(request, TokenizeRequest)
        if body.messages is not None:
            ids = self._render(body.messages, body.tools or [], body.add_generation_prompt)
        elif body.prompt is not None:
            ids = self._model.tokenizer.encode(body.prompt)
        else:
            raise ApiError(400, "prompt or messages is required")
        limit = self._engine.scheduler.limits.max_model_len
        return _json({"count": len(ids), "max_model_len": limit, "tokens": ids})

    async def _detokenize(self, request: web.Request) -> web.Response:
        body = await _parse(request, DetokenizeRequest)
        return _json({"prompt": self._model.tokenizer.decode(self._known(body.tokens))})

    # --- about the engine

    async def _health(self, _request: web.Request) -> web.Response:
        return web.Response()

    async def _version(self, _request: web.Request) -> web.Response:
        return _json({"version": f"{__version__}+loadjudge.reference"})

    async def _models(self, _request: web.Request) -> web.Response:
        entry = {
            "id": self._name,
            "object": "model",
            "created": self._started,
            "owned_by": "loadjudge",
            "root": self._name,
            "parent": None,
            "max_model_len": self._engine.scheduler.limits.max_model_len,
        }
        return _json({"object": "list", "data": [entry]})

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(
            text=exposition(self._engine, self._name),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )

    async def _reset_prefix_cache(self, _request: web.Request) -> web.Response:
        return _json({"success": self._engine.scheduler.pool.forget()})

    async def _read_inflight(self, _request: web.Request) -> web.Response:
        return _json(self._inflight.snapshot())

    async def _reset_inflight(self, _request: web.Request) -> web.Response:
        self._inflight.reset()
        return _json(self._inflight.snapshot())


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(
        body=orjson.dumps(value), status=status, content_type="application/json", charset="utf-8"
    )


async def _parse(request: web.Request, kind: type[_Body]) -> _Body:
    try:
        return kind.model_validate(orjson.loads(await request.read()))
    except orjson.JSONDecodeError as error:
        raise ApiError(400, f"the body is not JSON: {error}") from error
    except ValidationError as error:
        raise ApiError(400, "; ".join(message_of(dict(e)) for e in error.errors())) from error
