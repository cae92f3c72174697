"""The rules for one OpenAI message: roles, contents, tool calls, scripted waits."""

import math
from typing import Any

import orjson

from loadjudge.errors import JudgeError
from loadjudge.sessions.model import Message

ROLES = ("system", "developer", "user", "assistant", "tool")


def checked_message(at: str, message: Any) -> tuple[Message, float, tuple[str, ...]]:
    """The message as it is sent, its scripted wait in seconds, and what was changed in it.

    ``at`` names the message in errors: "chat.jsonl, line 3, message 2".
    """
    if not isinstance(message, dict):
        raise JudgeError(f"{at}: a message must be a JSON object with role and content.")
    role = message.get("role")
    if role not in ROLES:
        raise JudgeError(f"{at}: role {_shown(role)} is none of {', '.join(ROLES)}.")
    sent = {key: value for key, value in message.items() if key != "delay_seconds"}
    wait_s = _wait(at, message)
    notes: list[str] = []
    if role == "developer":
        sent["role"] = "system"
        notes.append("the developer message is sent as a system message")
    if role == "assistant":
        notes += _check_assistant(at, sent)
    else:
        _check_content(at, sent)
    if role == "tool" and not isinstance(sent.get("tool_call_id", ""), str):
        raise JudgeError(f"{at}: tool_call_id must be a string.")
    return sent, wait_s, tuple(notes)


def text_of(message: Message) -> str:
    """The text of a message's content, its text parts joined; "" where it has none."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(part["text"] for part in content if isinstance(part.get("text"), str))
    return ""


def calls_of(message: Message | None) -> list[dict[str, Any]]:
    """The tool calls of an assistant message, in order."""
    calls = message.get("tool_calls") if message is not None else None
    return list(calls) if calls else []


def _wait(at: str, message: Message) -> float:
    wait = message.get("delay_seconds")
    if wait is None:
        return 0.0
    if message["role"] not in ("user", "tool"):
        raise JudgeError(f"{at}: delay_seconds belongs on a user or tool message.")
    is_number = isinstance(wait, int | float) and not isinstance(wait, bool)
    if not is_number or not math.isfinite(wait) or wait < 0:
        raise JudgeError(f"{at}: delay_seconds must be a number of seconds, 0 or more.")
    return float(wait)


def _check_content(at: str, message: Message) -> None:
    content = message.get("content")
    if isinstance(content, str):
        return
    if not isinstance(content, list) or not content:
        raise JudgeError(
            f"{at}: the content of a {message['role']} message must be a string or a list of "
            f"text parts, not {_shown(content)}."
        )
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind != "text":
            raise JudgeError(
                f"{at}: a content part of type {_shown(kind)} cannot be played; "
                "sessions hold text only."
            )
        if not isinstance(part.get("text"), str):
            raise JudgeError(f"{at}: a text part must hold a string under text.")


def _check_assistant(at: str, message: Message) -> list[str]:
    content = message.get("content")
    if content is None:
        if not (message.get("tool_calls") or message.get("reasoning_content")):
            raise JudgeError(f"{at}: an assistant message without content needs tool_calls.")
    elif isinstance(content, list):
        if not all(isinstance(part, dict) for part in content):
            raise JudgeError(f"{at}: the parts of an assistant message must be JSON objects.")
    elif not isinstance(content, str):
        raise JudgeError(
            f"{at}: the content of an assistant message must be a string, a list of parts or null."
        )
    calls = message.get("tool_calls")
    if not calls:
        message.pop("tool_calls", None)  # null and [] mean none, and some servers refuse them
        return []
    if not isinstance(calls, list):
        raise JudgeError(f"{at}: tool_calls must be a list.")
    checked = [_checked_call(f"{at}, call {place}", call) for place, call in enumerate(calls, 1)]
    message["tool_calls"] = [call for call, _ in checked]
    return [note for _, note in checked if note]


def _checked_call(at: str, call: Any) -> tuple[dict[str, Any], str]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise JudgeError(f"{at}: a tool call must hold a function with a name.")
    if not isinstance(call.get("id", ""), str):
        raise JudgeError(f"{at}: the id of a tool call must be a string.")
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        return call, ""
    if arguments is not None and not isinstance(arguments, dict):
        raise JudgeError(f"{at}: the arguments of a tool call must be a string of JSON.")
    text = orjson.dumps(arguments or {}).decode()
    return {**call, "function": {**function, "arguments": text}}, (
        "tool call arguments given as objects are written as strings of JSON"
    )


def _shown(value: Any) -> str:
    """A short form of a foreign value, for a sentence."""
    if value is None:
        return "null"
    text = repr(value) if not isinstance(value, dict | list) else type(value).__name__
    return text if len(text) <= 40 else text[:37] + "…"
