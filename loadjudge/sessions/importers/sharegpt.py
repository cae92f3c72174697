"""ShareGPT: ``conversations`` of ``from`` and ``value``; also evalscope's ``conversation``."""

from typing import Any

from loadjudge.errors import JudgeError
from loadjudge.sessions.document import Document, Row
from loadjudge.sessions.importers.imported import Imported
from loadjudge.sessions.model import Message, Session
from loadjudge.sessions.native import build_session, session_id

_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "chatgpt": "assistant",
    "system": "system",
}


def import_sharegpt(document: Document) -> Imported:
    """Conversations without a user message are left out, as they have nothing to answer."""
    sessions = [session for row in document.rows if (session := _session(row)) is not None]
    left_out = len(document.rows) - len(sessions)
    if not sessions:
        raise JudgeError(f"{document.name}: no conversation in it holds a user message.")
    warnings = (
        (f"{document.name}: {left_out} conversations without a user message are left out",)
        if left_out
        else ()
    )
    return Imported(tuple(sessions), warnings)


def _session(row: Row) -> Session | None:
    record = row.value
    if not isinstance(record, dict):
        raise JudgeError(f"{row.at}: a conversation must be a JSON object.")
    messages = _messages(row.at, record)
    notes: list[str] = []
    leading = next((i for i, m in enumerate(messages) if m["role"] == "user"), len(messages))
    dropped = [m for m in messages[:leading] if m["role"] == "assistant"]
    if dropped:
        messages = [m for m in messages[:leading] if m["role"] != "assistant"] + messages[leading:]
        notes.append("an assistant message before the first user message is left out")
    if not any(m["role"] == "user" for m in messages):
        return None
    joined = _join_replies(messages)
    if len(joined) < len(messages):
        notes.append("assistant messages in a row are joined")
    return build_session(row.at, joined, id=session_id(row, record.get("id")), notes=tuple(notes))


def _messages(at: str, record: dict[str, Any]) -> list[Message]:
    if isinstance(record.get("conversations"), list):
        return [
            _message(f"{at}, message {number}", item)
            for number, item in enumerate(record["conversations"], 1)
        ]
    if not isinstance(record.get("conversation"), list):
        raise JudgeError(f"{at}: a ShareGPT record needs a list under conversations.")
    messages: list[Message] = []
    for number, item in enumerate(record["conversation"], 1):
        if not isinstance(item, dict) or not isinstance(item.get("human"), str):
            raise JudgeError(f"{at}, message {number}: an exchange needs a string under human.")
        messages.append({"role": "user", "content": item["human"]})
        if isinstance(item.get("assistant"), str):
            messages.append({"role": "assistant", "content": item["assistant"]})
    return messages


def _message(at: str, item: Any) -> Message:
    if not isinstance(item, dict):
        raise JudgeError(f"{at}: a message must be a JSON object with from and value.")
    role = _ROLES.get(item["from"]) if isinstance(item.get("from"), str) else None
    if role is None:
        raise JudgeError(
            f"{at}: from is {item.get('from')!r}, which is none of {', '.join(_ROLES)}; "
            "sessions with tools are read from OpenAI messages."
        )
    if not isinstance(item.get("value"), str):
        raise JudgeError(f"{at}: value must be a string.")
    return {"role": role, "content": item["value"]}


def _join_replies(messages: list[Message]) -> list[Message]:
    """Pieces of one long reply, which ShareGPT keeps apart, as one message."""
    joined: list[Message] = []
    for message in messages:
        if joined and message["role"] == joined[-1]["role"] == "assistant":
            joined[-1] = {
                "role": "assistant",
                "content": joined[-1]["content"] + "\n\n" + message["content"],
            }
        else:
            joined.append(message)
    return joined
