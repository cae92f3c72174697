"""The few plain calls of an endpoint that nothing is timed on."""

import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import httpx
import orjson

from loadjudge.client.client import LoadClient
from loadjudge.client.connection import Timeouts
from loadjudge.client.dialect import VLLM, Dialect
from loadjudge.client.endpoint import Endpoint, parse_endpoint, request_headers, ssl_context
from loadjudge.client.failures import CallError
from loadjudge.errors import JudgeError, Status
from loadjudge.wire.errortext import error_sentence

T = TypeVar("T")

# What servers answer for a path that they don't have.
_ABSENT = frozenset({404, 405, 501})


@dataclass(frozen=True, slots=True)
class Model:
    """A model as the endpoint lists it."""

    id: str
    max_model_len: int | None  # tokens; vLLM and SGLang say it
    owner: str | None = None  # owned_by: the engine's name, with most


class PlainClient:
    """Asks an endpoint about itself. Every failure is a JudgeError that names the endpoint.

    Proxy settings of the environment are left alone, as the load client has no proxy either.
    """

    def __init__(
        self,
        endpoint: Endpoint | str,
        *,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 120.0,
        insecure: bool = False,
        ssl: ssl.SSLContext | None = None,
    ) -> None:
        self.endpoint = parse_endpoint(endpoint) if isinstance(endpoint, str) else endpoint
        self.dialect: Dialect = VLLM  # set once the engine's family is known
        context = (ssl or ssl_context(insecure)) if self.endpoint.tls else None
        self._http = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(
                verify=context or False, uds=self.endpoint.socket, trust_env=False
            ),
            headers=request_headers(api_key, headers or {}),
            timeout=timeout_s,
        )
        self._large = LoadClient(
            self.endpoint,
            api_key=api_key,
            headers=headers,
            timeouts=Timeouts(first_byte_s=timeout_s, idle_s=timeout_s),
            ssl=context,
        )

    async def close(self) -> None:
        """Closes its connections."""
        await self._http.aclose()
        await self._large.close()

    async def __aenter__(self) -> "PlainClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def models(self) -> tuple[Model, ...]:
        """The models that it serves."""
        answer = self._good(await self._ask("GET", f"{self.endpoint.api}/models"))
        return self._read(answer, _models)

    async def model(self, name: str | None) -> Model:
        """The model of that name, or the only one where ``name`` is ``None``."""
        models = await self.models()
        names = ", ".join(model.id for model in models) or "none"
        if name is None and len(models) == 1:
            return models[0]
        for model in models:
            if model.id == name:
                return model
        url = self.endpoint.url
        if name is None:
            raise JudgeError(
                f"the endpoint {url} serves more than one model or none: "
                f"choose one with --model ({names})",
                Status.USAGE,
            )
        raise JudgeError(f"the endpoint {url} has no model {name!r}: it has {names}", Status.USAGE)

    async def metrics_text(self, path: str = "/metrics") -> str | None:
        """The Prometheus text, ``None`` where there is none."""
        answer = await self._ask("GET", f"{self.endpoint.root}{path}")
        return None if answer.status_code in _ABSENT else self._good(answer).text

    async def health(self, path: str = "/health") -> bool:
        """Whether it says that it is ready; False where nobody answers."""
        try:
            answer = await self._http.get(f"{self.endpoint.root}{path}")
        except httpx.HTTPError:
            return False
        return answer.status_code == 200

    async def version(self) -> str | None:
        """What /version says, ``None`` where there is none."""
        answer = await self._ask("GET", f"{self.endpoint.root}/version")
        if answer.status_code in _ABSENT:
            return None
        version = self._parsed(self._good(answer)).get("version")
        return None if version is None else str(version)

    async def tokenize(
        self,
        model: str,
        *,
        text: str | None = None,
        messages: Sequence[Mapping[str, Any]] | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
        add_special_tokens: bool = True,
    ) -> tuple[int, ...] | None:
        """Token ids of a text or, through the chat template, of messages.

        ``None`` where the endpoint has no such call, or doesn't know messages in it.
        """
        words = self.dialect
        if words.tokenize is None:
            return None
        if messages is not None and not words.messages:
            text = await self._rendered(messages, tools)
            if text is None:
                return None
            messages = None
        body: dict[str, Any] = {"model": model, **words.more}
        if messages is None:
            body |= {words.text: text or "", words.specials: add_special_tokens}
        else:
            body |= {"messages": messages, "add_generation_prompt": True}
            if tools:
                body["tools"] = tools
        answer = await self._ask("POST", f"{self.endpoint.root}{words.tokenize}", body)
        if answer.status_code in _ABSENT and not _model_unknown(answer):
            return None
        answer = await self._of_model(answer, model)
        return self._read(answer, lambda said: tuple(said[words.ids]))

    async def _rendered(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
    ) -> str | None:
        """Messages through the engine's own chat template, where it has a call for that."""
        if self.dialect.template is None:
            return None
        body = {"messages": messages, **({"tools": tools} if tools else {})}
        answer = await self._ask("POST", f"{self.endpoint.root}{self.dialect.template}", body)
        if answer.status_code in _ABSENT:
            return None
        return self._read(self._good(answer), lambda said: str(said["prompt"]))

    async def detokenize(self, model: str, ids: Sequence[int]) -> str | None:
        """The text of token ids, ``None`` where there is no such call."""
        words = self.dialect
        if words.detokenize is None:
            return None
        body = {"model": model, "tokens": list(ids)}
        answer = await self._ask("POST", f"{self.endpoint.root}{words.detokenize}", body)
        if answer.status_code in _ABSENT and not _model_unknown(answer):
            return None
        answer = await self._of_model(answer, model)
        return self._read(answer, lambda said: str(said[words.decoded]))

    async def reset_prefix_cache(
        self, path: str = "/reset_prefix_cache", method: Literal["GET", "POST"] = "POST"
    ) -> bool:
        """Whether the prefix cache is now empty; False where the endpoint has no such call, or
        says that it did not do it."""
        answer = await self._ask(method, f"{self.endpoint.root}{path}")
        if answer.status_code in _ABSENT:
            return False
        said = self._good(answer).content
        return b'"success":false' not in said.replace(b" ", b"")

    async def completions(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """One plain completion, not streamed (for ``prompt_logprobs``)."""
        answer = await self._ask("POST", f"{self.endpoint.api}/completions", body)
        return self._parsed(await self._of_model(answer, str(body.get("model"))))

    async def completions_as_sent(self, body: Mapping[str, Any]) -> tuple[int, bytearray]:
        """Status and body of one plain completion, unread: for large ones and for refusals."""
        try:
            status, answer = await self._large.post("/completions", orjson.dumps(body))
        except CallError as error:
            if error.kind.endswith("timeout"):
                raise self._late() from error
            raise self._unreachable(error.message) from error
        if status in (401, 403):
            raise self._refused(status)
        return status, answer

    async def _ask(
        self, method: Literal["GET", "POST"], url: str, body: Mapping[str, Any] | None = None
    ) -> httpx.Response:
        content = None if body is None else orjson.dumps(body)
        headers = None if body is None else {"Content-Type": "application/json"}
        try:
            return await self._http.request(method, url, content=content, headers=headers)
        except httpx.TimeoutException as error:
            raise self._late() from error
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    def _good(self, answer: httpx.Response) -> httpx.Response:
        """The answer, where it is one."""
        status = answer.status_code
        if status == 200:
            return answer
        if status in (401, 403):
            raise self._refused(status)
        said = error_sentence(answer.content)
        raise self._failed(f"answered {status} on {answer.request.url.path}", said)

    async def _of_model(self, answer: httpx.Response, model: str) -> httpx.Response:
        """The same, for a call that names a model: says which there are if it is unknown."""
        if _model_unknown(answer):
            await self.model(model)
        return self._good(answer)

    def _read(self, answer: httpx.Response, take: Callable[[dict[str, Any]], T]) -> T:
        """What ``take`` finds in the answer's JSON."""
        try:
            return take(self._parsed(answer))
        except (AttributeError, LookupError, TypeError) as error:
            raise self._failed(
                f"answered JSON of another shape on {answer.request.url.path}",
                "is it an OpenAI-compatible server?",
            ) from error

    def _parsed(self, answer: httpx.Response) -> dict[str, Any]:
        try:
            value = orjson.loads(answer.content)
        except orjson.JSONDecodeError:
            value = None
        if not isinstance(value, dict):
            path = answer.request.url.path
            raise self._failed(
                f"answered no JSON object on {path}", "is it an OpenAI-compatible server?"
            )
        return value

    def _late(self) -> JudgeError:
        return self._failed("did not answer in time", "is it still loading?")

    def _unreachable(self, why: object) -> JudgeError:
        return self._failed(f"can't be reached ({why})", "is the server up?")

    def _refused(self, status: int) -> JudgeError:
        return self._failed(f"refused the key ({status})", "set OPENAI_API_KEY or --api-key")

    def _failed(self, what: str, hint: str) -> JudgeError:
        return JudgeError(f"the endpoint {self.endpoint.url} {what}: {hint}")


def _models(answer: dict[str, Any]) -> tuple[Model, ...]:
    entries = answer.get("data") or []
    return tuple(
        Model(entry["id"], entry.get("max_model_len"), entry.get("owned_by")) for entry in entries
    )


def _model_unknown(answer: httpx.Response) -> bool:
    """A 404 about the model, not about the path."""
    return answer.status_code == 404 and b"model" in answer.content.lower()
