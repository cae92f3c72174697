"""The recording helper: ``python -m loadjudge.proxy.recorder``. Exchanges in, session file out.

A process of its own: taking apart histories of a megabyte would hold up the proxy's loop. At the
end of its input it writes all that is open, also where the proxy was killed.
"""

import selectors
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from loadjudge.errors import JudgeError
from loadjudge.proxy.decoding import Unreadable, decoded
from loadjudge.proxy.frames import FrameDecoder, encoded
from loadjudge.proxy.helper import parents_end
from loadjudge.proxy.joining import Joiner, Message, Said
from loadjudge.proxy.redact import Redactor, patterns_of
from loadjudge.proxy.sessionfile import SessionFile
from loadjudge.sessions.native import build_session, session_to_line

_SWEEP_S = 0.5
_LARGEST = 64 << 20  # bytes of a request, unpacked


class Unplayable(Exception):
    """An exchange that is no turn of a session."""


class Recorder:
    """Joins exchanges to sessions, takes out what is to be redacted, and writes."""

    def __init__(self, first: dict[str, Any]) -> None:
        self.turns = 0
        self.sessions = 0
        self.recovered = 0
        self.drops: Counter[str] = Counter()
        self.trouble: str | None = None
        self._redactor = Redactor(patterns_of(first["redact"], first["patterns"]))
        self._idle_s = float(first["idle_s"])
        self._most = int(first["open_sessions"])
        self._joiner = Joiner(self._most)
        self._files = SessionFile(Path(first["file"]), int(first["rotate_bytes"]))
        self._ended: dict[str, None] = {}  # still to be written
        for session in self._files.open:
            self.recovered += 1
            self._ended[session] = None
        self._write_ended()

    def take(self, head: dict[str, Any], body: bytes, now_s: float) -> None:
        """One exchange: the request's body, and in ``head`` the reply's message."""
        try:
            said = said_of(head, body)
            turn, gone = self._joiner.take(said, now_s)
        except (Unplayable, Unreadable, ValueError) as error:
            self.drops[str(error)[:80]] += 1
            return
        before = self._redactor.count
        event = {
            "messages": [self._redactor.message(m) for m in turn.messages],
            "tools": [self._redactor.value(tool) for tool in turn.tools],
            "max_tokens": turn.max_tokens,
        }
        try:
            self._files.turn(turn.session, event)
        except OSError as error:
            # Without this turn the session has a gap: it ends here. The next request brings its
            # whole history, and with it a session of its own.
            self._redactor.count = before
            self.drops["the disk"] += 1
            self.trouble = f"{(error.strerror or str(error)).lower()}: turns are being dropped"
            self._joiner.forget(turn.session)
            if not turn.first:
                self._ended[turn.session] = None
        else:
            self.turns += 1
            if not self._ended:
                self.trouble = None
        self._ended.update(dict.fromkeys(gone))

    def sweep(self, now_s: float) -> None:
        """Ends sessions that have been idle, and writes what has ended."""
        self._ended.update(dict.fromkeys(self._joiner.idle(now_s - self._idle_s)))
        self._write_ended()

    def close(self) -> None:
        """Ends and writes all."""
        self._ended.update(dict.fromkeys(self._files.open))
        self._write_ended()
        self._files.close()

    def state(self) -> dict[str, Any]:
        """For the proxy."""
        return {
            "sessions_open": len(self._joiner),
            "sessions_written": self.sessions,
            "turns": self.turns,
            "joined": self._joiner.joined,
            "bytes_written": self._files.written,
            "redacted": self._redactor.count,
            "recovered": self.recovered,
            "drops": dict(self.drops),
            "trouble": self.trouble,
        }

    def _write_ended(self) -> None:
        for session in tuple(self._ended):
            try:
                line = self._line(session)
                self._files.end(session, line)
            except OSError as error:
                why = (error.strerror or str(error)).lower()
                self.trouble = f"{why}: {len(self._ended)} ended sessions wait to be written"
                return
            del self._ended[session]
            self.sessions += line is not None
        if self.trouble is not None and "wait to be written" in self.trouble:
            self.trouble = None

    def _line(self, session: str) -> bytes | None:
        record = self._files.record(session)
        messages, notes = playable(record["messages"])
        try:
            made = build_session(
                "the recording",
                messages,
                id=session,
                tools=list(record["tools"]) or None,
                max_tokens=record.get("max_tokens"),
                notes=notes,
            )
        except JudgeError as error:
            self.drops[f"can't be played: {error.sentence[:160]}"] += 1
            return None
        return session_to_line(made)


def said_of(head: dict[str, Any], body: bytes) -> Said:
    """What an exchange said. Raises Unplayable and Unreadable."""
    data = decoded(body, head.get("coding", ""), _LARGEST)
    try:
        request = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise Unplayable("a request that is not JSON") from None
    messages = request.get("messages") if isinstance(request, dict) else None
    if not isinstance(messages, list) or not messages:
        raise Unplayable("a request without messages")
    if request.get("n") not in (None, 1):
        raise Unplayable("a request of several choices")
    tools = request.get("tools")
    limit = request.get("max_completion_tokens") or request.get("max_tokens")
    reply = dict(head["reply"])
    if not reply.get("content") and not reply.get("tool_calls"):
        reply["content"] = reply.get("content") or ""
    return Said(
        messages=messages,
        reply=reply,
        tools=tools if isinstance(tools, list) else (),
        max_tokens=limit if isinstance(limit, int) and limit > 0 else None,
    )


def playable(messages: Sequence[Message]) -> tuple[list[Message], tuple[str, ...]]:
    """The messages such that the model speaks where it spoke, and notes of what was changed.

    In a session file two user messages in a row have a model turn between them (ARCHITECTURE.md,
    "Formats"); a client that sent them together meant none, so they become one. A user message
    right behind results of calls can't be joined to them: there a turn without a recorded reply
    comes in.
    """
    out: list[Message] = []
    notes = []
    for message in messages:
        role, before = message.get("role"), out[-1].get("role") if out else None
        if role == before == "user" and all(
            isinstance(m.get("content"), str) for m in (out[-1], message)
        ):
            text = f"{out[-1]['content']}\n\n{message['content']}"
            out[-1] = {**out[-1], "content": text}
            notes.append("user messages that were sent together are joined to one")
            continue
        if role == "user" and before == "tool":
            notes.append("a model turn comes between results of calls and what was sent with them")
        out.append(message)
    return out, tuple(notes)


def main() -> None:
    """Reads frames until their end; tells its state when it has changed."""
    peer = parents_end()
    frames = FrameDecoder()
    recorder: Recorder | None = None
    told: dict[str, Any] | None = None
    due_s = 0.0
    with selectors.DefaultSelector() as ready:
        ready.register(peer, selectors.EVENT_READ)
        over = False
        while not over:
            data = b""
            if ready.select(_SWEEP_S):
                data = peer.recv(1 << 20)
                over = not data
            for head, body in frames.feed(data):
                if recorder is None:
                    try:
                        recorder = Recorder(head)
                    except JudgeError as error:
                        peer.sendall(encoded({"failed": error.sentence}))
                        return
                elif head.get("end"):
                    over = True
                else:
                    recorder.take(head, body, time.monotonic())
            if recorder is None:
                continue
            now = time.monotonic()
            if now >= due_s or over:
                due_s = now + _SWEEP_S
                if over:
                    recorder.close()
                else:
                    recorder.sweep(now)
                state = recorder.state()
                if state != told:
                    told = state
                    _tell(peer, state)


def _tell(peer: Any, state: dict[str, Any]) -> None:
    try:
        peer.sendall(encoded(state))
    except OSError:
        return  # the proxy was killed: what it said is still written


if __name__ == "__main__":
    main()
