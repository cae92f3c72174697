"""A chat completion that was not streamed: the body in, a Reply out."""

from typing import Any

import orjson

from loadjudge.wire.errortext import error_sentence
from loadjudge.wire.reply import Reply, ToolCall, Usage
from loadjudge.wire.stream import StreamError
from loadjudge.wire.toolcalls import as_text

_REASONING = ("reasoning", "reasoning_content")


def whole_reply(body: bytes) -> Reply:
    """The reply in a ``chat.completion`` body: its first choice. It has no arrivals.

    Raises StreamError where the body is an error or no chat completion.
    """
    try:
        value: dict[str, Any] = orjson.loads(body)
        if value.get("error") or value.get("object") == "error":
            raise StreamError("stream_error", error_sentence(body))
        choice = value["choices"][0]
        return _reply(value, choice, choice["message"])
    except orjson.JSONDecodeError as error:
        raise StreamError("malformed", f"the body is not JSON ({error})") from None
    except (AttributeError, TypeError, LookupError) as error:
        raise StreamError("malformed", f"the body is no chat completion ({error})") from None


def _usage(usage: dict[str, Any] | None) -> Usage | None:
    """Token counts as the endpoint reports them."""
    if not usage:
        return None
    details = usage.get("prompt_tokens_details") or {}
    return Usage(
        usage.get("prompt_tokens"), usage.get("completion_tokens"), details.get("cached_tokens")
    )


def _reply(value: dict[str, Any], choice: dict[str, Any], message: dict[str, Any]) -> Reply:
    field = next((name for name in _REASONING if message.get(name)), None)
    ids, prompt_ids = choice.get("token_ids"), value.get("prompt_token_ids")
    return Reply(
        content=as_text(message.get("content") or ""),
        reasoning=as_text(message[field]) if field else "",
        reasoning_field=field,
        tool_calls=tuple(
            ToolCall(call.get("id") or "", call["function"]["name"], _arguments(call["function"]))
            for call in message.get("tool_calls") or ()
        ),
        finish_reason=choice.get("finish_reason"),
        token_ids=tuple(ids) if ids else None,
        prompt_token_ids=tuple(prompt_ids) if prompt_ids else None,
        usage=_usage(value.get("usage")),
        arrivals=(),
        t_first_content_ns=None,
        done=True,
        model=value.get("model"),
        reply_id=value.get("id"),
    )


def _arguments(function: dict[str, Any]) -> str:
    arguments = function.get("arguments")
    return arguments if isinstance(arguments, str) else orjson.dumps(arguments or {}).decode()
