"""aiperf's ``multi_turn`` and ``single_turn`` lines."""

from collections.abc import Iterable
from typing import Any

from loadjudge.errors import JudgeError
from loadjudge.sessions.document import Document, Row
from loadjudge.sessions.importers.imported import Imported, unknown_keys
from loadjudge.sessions.model import Message, Session
from loadjudge.sessions.native import build_session, session_id

_MEDIA = ("image", "images", "audio", "audios", "video", "videos")
_KNOWN = {"text", "texts", "role", "delay", "output_length", "type", "session_id", "timestamp"}
# What a single_turn line may hold.
TURN_KEYS = frozenset({*_KNOWN, *_MEDIA, "extra"})


def import_aiperf(document: Document) -> Imported:
    """Lines that share a ``session_id`` are one session, as in aiperf.

    ``delay`` (milliseconds) becomes the turn's wait. A ``timestamp`` is ignored: lanes send a
    session's next turn when the one before is answered.
    """
    grouped: dict[str, list[Row]] = {}
    for row in document.rows:
        if not isinstance(row.value, dict):
            raise JudgeError(f"{row.at}: an aiperf record must be a JSON object.")
        grouped.setdefault(session_id(row, row.value.get("session_id")), []).append(row)
    sessions = tuple(_session(id, rows) for id, rows in grouped.items())
    turns = [turn for row in document.rows for turn in _turns_of(row)]
    counts: dict[str, int] = {}
    for key in (key for turn in turns for key in turn if key not in _KNOWN):
        counts[key] = counts.get(key, 0) + 1
    return Imported(sessions, unknown_keys(document.name, counts))


def _session(id: str, rows: list[Row]) -> Session:
    messages: list[Message] = []
    lengths: list[Any] = []
    timed = False
    for row in rows:
        for number, turn in enumerate(_turns_of(row), 1):
            message = _message(f"{row.at}, turn {number}", turn)
            # As in aiperf, a leading system turn is the conversation's system message.
            messages.append(message)
            timed = timed or turn.get("timestamp") is not None
            if turn.get("output_length") is not None:
                lengths.append(turn["output_length"])
    notes = ["timestamps are ignored"] if timed else []
    if len(set(map(str, lengths))) > 1:
        notes.append("max_tokens is the largest output_length of the turns")
    return build_session(
        rows[0].at, messages, id=id, max_tokens=_largest(rows[0].at, lengths), notes=tuple(notes)
    )


def _turns_of(row: Row) -> list[dict[str, Any]]:
    if "turns" not in row.value:
        return [row.value]
    turns = row.value["turns"]
    if not isinstance(turns, list) or not turns or not all(isinstance(t, dict) for t in turns):
        raise JudgeError(f"{row.at}: turns must be a list of JSON objects, one at least.")
    return turns


def _message(at: str, turn: dict[str, Any]) -> Message:
    media = next((key for key in _MEDIA if turn.get(key)), None)
    if media is not None:
        raise JudgeError(f"{at}: {media} cannot be played; sessions hold text only.")
    role = turn.get("role") or "user"
    if role not in ("system", "user", "assistant"):
        raise JudgeError(f"{at}: role {role!r} is none of system, user, assistant.")
    texts = _texts(at, turn)
    message: Message = {
        "role": role,
        "content": texts[0]
        if len(texts) == 1
        else [{"type": "text", "text": text} for text in texts],
    }
    delay_ms = turn.get("delay")
    if delay_ms is not None:
        if isinstance(delay_ms, bool) or not isinstance(delay_ms, int | float):
            raise JudgeError(f"{at}: delay must be a number of milliseconds.")
        if role == "user":
            message["delay_seconds"] = delay_ms / 1000
    return message


def _texts(at: str, turn: dict[str, Any]) -> list[str]:
    """``text``, or ``texts`` as strings or as named lists of strings."""
    given = turn["texts"] if turn.get("texts") else [turn.get("text")]
    texts: list[Any] = []
    for item in given if isinstance(given, list) else [given]:
        contents = item.get("contents") if isinstance(item, dict) else None
        texts += contents if isinstance(contents, list) else [item]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise JudgeError(f"{at}: a turn needs a string under text, or strings under texts.")
    return texts


def _largest(at: str, lengths: Iterable[Any]) -> int | None:
    values = list(lengths)
    if any(isinstance(value, bool) or not isinstance(value, int) for value in values):
        raise JudgeError(f"{at}: output_length must be a whole number.")
    return max(values, default=None)
