"""SWE-agent trajectories (``.traj``): the ``history`` that the agent sent and received."""

from typing import Any

from loadjudge.errors import JudgeError
from loadjudge.sessions.document import Document
from loadjudge.sessions.importers.imported import Imported
from loadjudge.sessions.messages import text_of
from loadjudge.sessions.model import Message
from loadjudge.sessions.native import build_session


def import_swe_agent(document: Document) -> Imported:
    """One session a trajectory, named after the file.

    Only what a server sees is kept. Trajectories from before SWE-agent spoke in tool calls give
    chat sessions: commands stand in the reply's text, and observations are user messages.
    """
    sessions = []
    for row in document.rows:
        history = row.value.get("history") if isinstance(row.value, dict) else None
        if not isinstance(history, list) or not history:
            raise JudgeError(f"{row.at}: a trajectory needs a list of messages under history.")
        if not all(isinstance(entry, dict) for entry in history):
            raise JudgeError(f"{row.at}: the entries of history must be JSON objects.")
        notes: list[str] = []
        agent = history[0].get("agent")
        own = [entry for entry in history if entry.get("agent") == agent]
        if len(own) < len(history):
            notes.append(f"only the messages of agent {agent!r} are kept")
        messages = [
            _message(f"{row.at}, message {number}", entry) for number, entry in enumerate(own, 1)
        ]
        joined = _join_prompts(messages)
        if len(joined) < len(messages):
            notes.append("user messages in a row are joined")
        id = document.stem if len(document.rows) == 1 else f"{document.stem}-{row.number}"
        sessions.append(build_session(row.at, joined, id=id, notes=tuple(notes)))
    return Imported(tuple(sessions))


def _message(at: str, entry: dict[str, Any]) -> Message:
    message: Message = {"role": entry.get("role"), "content": _content(entry.get("content"))}
    if message["role"] == "assistant" and entry.get("tool_calls"):
        message["tool_calls"] = entry["tool_calls"]
    if message["role"] == "tool":
        ids = entry.get("tool_call_ids") or [entry.get("tool_call_id")]
        if not isinstance(ids, list) or len(ids) != 1:
            raise JudgeError(f"{at}: an observation must answer one call; see tool_call_ids.")
        if ids[0] is not None:
            message["tool_call_id"] = ids[0]
    return message


def _content(content: Any) -> Any:
    """Text parts, which carry cache marks of one vendor, as plain text."""
    if isinstance(content, list) and all(
        isinstance(part, dict) and part.get("type") == "text" for part in content
    ):
        return text_of({"content": content})
    return content


def _join_prompts(messages: list[Message]) -> list[Message]:
    """A trajectory records every reply, so between two user messages the model did not speak."""
    joined: list[Message] = []
    for message in messages:
        before = joined[-1] if joined else {}
        if message["role"] == before.get("role") == "user":
            texts = [text_of(before), text_of(message)]
            joined[-1] = {"role": "user", "content": "\n\n".join(texts)}
        else:
            joined.append(message)
    return joined
