"""Bodies of chat completion requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from loadjudge.errors import JudgeError, Status


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn; sent in full, so that no server's own defaults come into play.

    See ``neutral`` of ``chat_body`` for what it leaves out.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int | None = None  # not in OpenAI's protocol
    seed: int | None = None


def chat_body(
    model: str,
    messages: Sequence[Mapping[str, Any]],
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    sampling: Sampling | None = None,
    max_tokens: int | None = None,
    seed: int | None = None,
    want_ids: bool = False,
    cache_salt: str | None = None,
    neutral: Mapping[str, float] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> bytes:
    """The JSON body of one streamed request, usage asked for in its last chunk.

    ``seed`` is the request's own and goes before ``sampling.seed``. ``want_ids`` asks for
    ``return_token_ids`` and ``cache_salt`` keeps prefixes of different passes apart (both vLLM).
    ``neutral`` holds what switches off each way of sampling that the task does not ask for, in the
    engine family's own words: what is not sent the engine takes from its own defaults or from the
    model's generation_config, and then draws from another distribution than is scored.
    ``extra`` (``--extra-body``) is merged last, key by key at the top level.
    Raises JudgeError where ``extra`` would make the reply something other than one stream.
    """
    sampling = sampling or Sampling()
    body: dict[str, Any] = {
        "model": model,
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
        **(neutral or {}),
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
    }
    optional = {
        "tools": tools or None,
        "top_k": sampling.top_k,
        "max_tokens": max_tokens,
        "seed": sampling.seed if seed is None else seed,
        "return_token_ids": True if want_ids else None,
        "cache_salt": cache_salt,
    }
    body.update((key, value) for key, value in optional.items() if value is not None)
    body.update(extra or {})
    if body["stream"] is not True or body.get("n", 1) != 1:
        raise JudgeError(
            "the extra body sets stream or n, but every request is one streamed reply: "
            "take them out of --extra-body",
            Status.USAGE,
        )
    try:
        return orjson.dumps(body)
    except TypeError as error:
        raise JudgeError(f"a request body is not JSON: {error}", Status.USAGE) from error
