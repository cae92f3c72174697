"""The native format: a line of OpenAI messages to a Session, and back.

Where the model speaks (ARCHITECTURE.md, "Formats"): at each assistant message, whose text is
the turn's ``recorded``; between a user or tool message and the user message that follows it;
after a trailing user or tool message. Consecutive tool messages answer the parallel calls of
one assistant message, in the order of the calls.
"""

from dataclasses import dataclass, replace
from typing import Any, get_args

import orjson

from loadjudge.errors import JudgeError
from loadjudge.sessions.derived_tools import derived_tools
from loadjudge.sessions.document import Row
from loadjudge.sessions.messages import calls_of, checked_message
from loadjudge.sessions.model import Kind, Message, Session, Turn

# category is a label for people; check does not warn of it.
KNOWN_KEYS = frozenset({"id", "messages", "tools", "kind", "max_tokens", "notes", "category"})


def session_from_row(row: Row) -> Session:
    """A line of the native format: an object with messages, or a bare list of messages."""
    record = {"messages": row.value} if isinstance(row.value, list) else row.value
    if not isinstance(record, dict) or not isinstance(record.get("messages"), list):
        raise JudgeError(f"{row.at}: a session is a JSON object with a list under messages.")
    notes = record.get("notes") or []
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise JudgeError(f"{row.at}: notes must be a list of strings.")
    return build_session(
        row.at,
        record["messages"],
        id=session_id(row, record.get("id")),
        tools=record.get("tools"),
        kind=record.get("kind"),
        max_tokens=record.get("max_tokens"),
        notes=tuple(notes),
    )


def session_id(row: Row, given: Any) -> str:
    """The id of a record: the given one, else one made of the line number."""
    if given is None or given == "":
        return f"line-{row.number}" if ", line " in row.at else f"record-{row.number}"
    if isinstance(given, bool) or not isinstance(given, str | int):
        raise JudgeError(f"{row.at}: the id must be a string.")
    return str(given)


def build_session(
    at: str,
    messages: list[Any],
    *,
    id: str,
    tools: Any = None,
    kind: Any = None,
    max_tokens: Any = None,
    notes: tuple[str, ...] = (),
) -> Session:
    """A checked Session of OpenAI messages; every importer ends here.

    Raises JudgeError, naming ``at`` and the message, where the messages break a rule.
    """
    turns, changes = _turns(at, messages)
    recorded = [turn.recorded for turn in turns if turn.recorded is not None]
    definitions = _checked_tools(at, tools)
    if not definitions:
        definitions = derived_tools(recorded)
        if definitions:
            changes.append("tool definitions are derived from the recorded calls")
    if kind is not None and kind not in get_args(Kind):
        raise JudgeError(f'{at}: kind must be "chat" or "agent".')
    if kind is None:
        has_results = any(m["role"] == "tool" for turn in turns for m in turn.messages)
        kind = "agent" if definitions or has_results else "chat"
    if max_tokens is not None and (
        isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1
    ):
        raise JudgeError(f"{at}: max_tokens must be a whole number, 1 or more.")
    return Session(
        id=id,
        kind=kind,
        turns=turns,
        tools=definitions,
        max_tokens=max_tokens,
        notes=tuple(dict.fromkeys((*notes, *changes))),
    )


@dataclass(frozen=True, slots=True)
class _Pending:
    """A message that waits for the model to speak, and its number in the session."""

    number: int
    message: Message
    wait_s: float


def _turns(at: str, messages: list[Any]) -> tuple[tuple[Turn, ...], list[str]]:
    """Cut the messages where the model speaks; also what was changed in them."""
    turns: list[Turn] = []
    pending: list[_Pending] = []
    changes: list[str] = []

    def speak(recorded: Message | None) -> None:
        answered = turns[-1].recorded if turns else None
        sent = tuple(entry.message for entry in _in_call_order(at, pending, answered))
        # Results of parallel calls arrive together, once the slowest is there.
        wait_s = max((entry.wait_s for entry in pending), default=0.0)
        turns.append(Turn(sent, recorded, wait_s))
        pending.clear()

    for number, raw in enumerate(messages, 1):
        where = f"{at}, message {number}"
        message, wait_s, notes = checked_message(where, raw)
        changes += notes
        role, before = message["role"], pending[-1].message["role"] if pending else None
        if role == "assistant":
            _check_spoken_to(where, before, first=not turns)
            speak(_with_call_ids(message, len(turns) + 1))
            continue
        if role == "system" and number > 1:
            raise JudgeError(
                f"{where}: {_second_system(messages)}; put all of it into one system message at "
                "the beginning."
            )
        if role == "tool" and not turns and before != "user":
            raise JudgeError(f"{where}: a tool message answers a call, and none comes before it.")
        if before == "user" or (before == "tool" and role == "user"):
            speak(None)
        pending.append(_Pending(number, message, wait_s))
    if pending and pending[-1].message["role"] != "system":
        speak(None)
    if not turns:
        raise JudgeError(f"{at}: the session holds no user message, so the model never speaks.")
    return tuple(turns), changes


def _second_system(messages: list[Any]) -> str:
    first = messages[0]
    if isinstance(first, dict) and first.get("role") in ("system", "developer"):
        return "a second system message"
    return "a system message after other messages"


def _check_spoken_to(at: str, before: str | None, *, first: bool) -> None:
    """Whether there is something new for an assistant message to answer."""
    if before in ("user", "tool"):
        return
    if first:
        raise JudgeError(
            f"{at}: the session begins with an assistant message; a user message must come first."
        )
    raise JudgeError(
        f"{at}: two assistant messages in a row; join them, or put the user or tool message "
        "between them that the second one answers."
    )


def _with_call_ids(message: Message, turn: int) -> Message:
    """The assistant message with an id and a type on each call, as the protocol asks."""
    calls = calls_of(message)
    if not calls:
        return message
    completed = [
        {"id": f"call_{turn}_{place}", "type": "function", **call}
        for place, call in enumerate(calls, 1)
    ]
    return {**message, "tool_calls": completed}


def _in_call_order(at: str, pending: list[_Pending], answered: Message | None) -> list[_Pending]:
    """The messages of a turn, tool messages in the order of the recorded calls they answer.

    Whoever plays the session gives the results to the model's own calls by place, so the order
    carries the meaning. Ids may repeat within a session, so only the last calls count.
    """
    results = [entry for entry in pending if entry.message["role"] == "tool"]
    if not results or answered is None:
        return list(pending)
    where = f"{at}, message {results[0].number}"
    ids = [call["id"] for call in calls_of(answered)]
    if not ids:
        raise JudgeError(
            f"{where}: a tool message, but the assistant message before it makes no call."
        )
    if len(results) != len(ids):
        raise JudgeError(
            f"{where}: tool messages and calls do not pair up: the assistant message makes "
            f"{len(ids)}, and {len(results)} tool message(s) follow; give each call its result."
        )
    filled = [
        entry
        if "tool_call_id" in entry.message
        else replace(entry, message={**entry.message, "tool_call_id": ids[place]})
        for place, entry in enumerate(results)
    ]
    given = [entry.message["tool_call_id"] for entry in filled]
    if sorted(given) != sorted(ids):
        unknown = next((id for id in given if id not in ids), given[-1])
        raise JudgeError(
            f"{where}: tool_call_id {unknown!r} answers no call of the assistant message before it "
            f"(its calls are {', '.join(ids)})."
        )
    # A stable sort: where two calls share an id, their results keep the order of the file.
    return sorted(filled, key=lambda entry: ids.index(entry.message["tool_call_id"]))


def _checked_tools(at: str, tools: Any) -> tuple[dict[str, Any], ...]:
    if tools is None:
        return ()
    if not isinstance(tools, list):
        raise JudgeError(f"{at}: tools must be a list of tool definitions.")
    for place, tool in enumerate(tools, 1):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise JudgeError(
                f'{at}: tool {place} is not of the form {{"type": "function", "function": '
                '{"name": …, "parameters": …}}.'
            )
    return tuple(tools)


def session_to_json(session: Session) -> dict[str, Any]:
    """The session as a record of the native format; reading it gives an equal Session."""
    messages: list[Message] = []
    for turn in session.turns:
        sent = list(turn.messages)
        if turn.wait_s:
            sent[-1] = {**sent[-1], "delay_seconds": turn.wait_s}
        messages += sent
        if turn.recorded is not None:
            messages.append(turn.recorded)
    record: dict[str, Any] = {"id": session.id, "kind": session.kind}
    if session.tools:
        record["tools"] = list(session.tools)
    if session.max_tokens is not None:
        record["max_tokens"] = session.max_tokens
    if session.notes:
        record["notes"] = list(session.notes)
    return {**record, "messages": messages}


def session_to_line(session: Session) -> bytes:
    """One line of a native file, newline included."""
    return orjson.dumps(session_to_json(session), option=orjson.OPT_APPEND_NEWLINE)
