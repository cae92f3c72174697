"""mlcommons/endpoints multi-turn: flat rows, the rows of a conversation next to each other."""

from itertools import groupby
from typing import Any

from loadjudge.errors import JudgeError
from loadjudge.sessions.document import Document, Row
from loadjudge.sessions.importers.imported import Imported, unknown_keys
from loadjudge.sessions.model import Message, Session
from loadjudge.sessions.native import build_session

_ROLES = ("user", "assistant", "tool")
_KNOWN = {
    "conversation_id",
    "turn",
    "role",
    "content",
    "reasoning_content",
    "tool_calls",
    "tool_results",
    "tool_call_id",
    "delay_seconds",
    "system",
    "tools",
    "max_new_tokens",
    "model",
}


def import_mlcommons(document: Document) -> Imported:
    """Rows are put in the order of ``turn`` within a conversation, as their own loader does."""
    for row in document.rows:
        _check_row(row)
    sessions: list[Session] = []
    first_at: dict[str, str] = {}
    for id, group in groupby(document.rows, key=lambda row: str(row.value["conversation_id"])):
        rows = list(group)
        if id in first_at:
            raise JudgeError(
                f"{rows[0].at}: conversation {id} began at {first_at[id]} and was left since; "
                "the rows of a conversation must follow each other."
            )
        first_at[id] = rows[0].at
        sessions.append(_session(id, sorted(rows, key=lambda row: int(row.value["turn"]))))
    counts: dict[str, int] = {}
    for key in (key for row in document.rows for key in row.value if key not in _KNOWN):
        counts[key] = counts.get(key, 0) + 1
    return Imported(tuple(sessions), unknown_keys(document.name, counts))


def _check_row(row: Row) -> None:
    value = row.value
    if not isinstance(value, dict) or not isinstance(value.get("conversation_id"), str | int):
        raise JudgeError(f"{row.at}: a row needs a conversation_id.")
    if isinstance(value.get("turn"), bool) or not isinstance(value.get("turn"), int):
        raise JudgeError(f"{row.at}: a row needs a turn, a whole number from 1.")
    if value.get("role") not in _ROLES:
        raise JudgeError(f"{row.at}: role {value.get('role')!r} is none of {', '.join(_ROLES)}.")


def _session(id: str, rows: list[Row]) -> Session:
    numbers = [row.value["turn"] for row in rows]
    for expected, row in enumerate(rows, 1):
        if row.value["turn"] != expected:
            raise JudgeError(
                f"{row.at}: conversation {id} has turn {row.value['turn']} where turn {expected} "
                f"is due; its {len(numbers)} rows must be numbered from 1 without gaps."
            )
    if rows[0].value["role"] != "user":
        raise JudgeError(f"{rows[0].at}: conversation {id} must begin with a user row.")
    system = _first(rows, "system")
    messages: list[Message] = [{"role": "system", "content": system}] if system else []
    for row in rows:
        messages += _messages(row)
    limits = [row.value["max_new_tokens"] for row in rows if row.value.get("max_new_tokens")]
    if any(isinstance(limit, bool) or not isinstance(limit, int) for limit in limits):
        raise JudgeError(f"{rows[0].at}: max_new_tokens must be a whole number.")
    return build_session(
        rows[0].at,
        messages,
        id=id,
        tools=_first(rows, "tools"),
        max_tokens=max(limits, default=None),
        notes=("max_tokens is the largest max_new_tokens of the rows",)
        if len(set(limits)) > 1
        else (),
    )


def _first(rows: list[Row], key: str) -> Any:
    return next((row.value[key] for row in rows if row.value.get(key)), None)


def _messages(row: Row) -> list[Message]:
    value = row.value
    if value["role"] == "assistant":
        kept = ("content", "reasoning_content", "tool_calls")
        recorded = {key: value[key] for key in kept if value.get(key) is not None}
        return [{"role": "assistant", "content": None, **recorded}]
    wait = {"delay_seconds": value["delay_seconds"]} if value.get("delay_seconds") else {}
    if value["role"] == "user":
        return [{"role": "user", "content": value.get("content"), **wait}]
    results = value.get("tool_results")
    if results is None:  # a row for each result
        results = [{key: value[key] for key in ("tool_call_id", "content") if key in value}]
    if not isinstance(results, list) or not results:
        raise JudgeError(f"{row.at}: a tool row needs a list of results under tool_results.")
    if not all(isinstance(result, dict) for result in results):
        raise JudgeError(f"{row.at}: a tool result must be a JSON object with its content.")
    return [{**result, "role": "tool", **wait} for result in results]
