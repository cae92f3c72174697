"""Tool definitions for sessions that record calls but not the tools that they call."""

from typing import Any

import orjson

from loadjudge.sessions.messages import calls_of
from loadjudge.sessions.model import Message


def derived_tools(messages: list[Message]) -> tuple[dict[str, Any], ...]:
    """One definition a called function, in order of first call.

    Properties are the union of the argument keys seen, each with the JSON types seen; a key
    that every call gives is required. Calls whose arguments are no JSON object give only the
    name. Without such definitions an endpoint emits no calls.
    """
    seen: dict[str, list[dict[str, Any]]] = {}
    for message in messages:
        for call in calls_of(message):
            seen.setdefault(call["function"]["name"], []).append(_arguments(call))
    return tuple(_definition(name, calls) for name, calls in seen.items())


def _arguments(call: dict[str, Any]) -> dict[str, Any]:
    try:
        value = orjson.loads(call["function"]["arguments"])
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _definition(name: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    values: dict[str, list[Any]] = {}
    for arguments in calls:
        for key, value in arguments.items():
            values.setdefault(key, []).append(value)
    parameters = {
        "type": "object",
        "properties": {key: _schema(given) for key, given in values.items()},
        "required": [key for key in values if all(key in arguments for arguments in calls)],
    }
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def _schema(values: list[Any]) -> dict[str, Any]:
    types = sorted({_json_type(value) for value in values})
    if "integer" in types and "number" in types:
        types.remove("integer")
    schema: dict[str, Any] = {"type": types[0] if len(types) == 1 else types}
    items = [item for value in values if isinstance(value, list) for item in value]
    if "array" in types:
        schema["items"] = _schema(items) if items else {}
    return schema


def _json_type(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"
