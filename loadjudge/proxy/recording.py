"""The proxy's end of ``--record``: whole exchanges go to the recorder, its state comes back."""

import asyncio
from collections import Counter
from typing import Any

from loadjudge.errors import JudgeError, Status
from loadjudge.proxy.frames import Frame
from loadjudge.proxy.helper import Helper
from loadjudge.proxy.live import Incidents, Recording
from loadjudge.proxy.options import RecordOptions
from loadjudge.proxy.redact import patterns_of
from loadjudge.wire.reply import Reply

_START_S = 30.0


class Recorded:
    """Sends what was said, never headers."""

    def __init__(self, options: RecordOptions, incidents: Incidents) -> None:
        patterns_of(options.redact, options.patterns)  # a wrong one fails here, at once
        self._options = options
        self._incidents = incidents
        self._drops: Counter[str] = Counter()
        self._state: dict[str, Any] = {}
        self._earlier: Counter[str] = Counter()  # counted by recorders that died
        self._ready = asyncio.Event()
        self._failed: str | None = None
        first = {
            "file": str(options.file.absolute()),
            "redact": list(options.redact),
            "patterns": list(options.patterns),
            "idle_s": options.idle_s,
            "open_sessions": options.open_sessions,
            "rotate_bytes": options.rotate_bytes,
        }
        self._helper = Helper("loadjudge.proxy.recorder", first, self._told, self._trouble)

    async def start(self) -> None:
        """Raises JudgeError where the file can't be written."""
        probe(self._options)
        await self._helper.start()
        try:
            await asyncio.wait_for(self._ready.wait(), _START_S)
        except TimeoutError:
            self._failed = f"the recorder was not ready in {_START_S:g} s"
        if self._failed is not None:
            await self._helper.stop()
            raise JudgeError(self._failed)

    async def stop(self) -> None:
        await self._helper.stop()

    def take(self, body: bytes | None, coding: str, reply: Reply | None, why: str) -> None:
        """An exchange that is over; ``why`` it can't be recorded, where it can't."""
        if reply is None:
            self._drops[why] += 1
        elif body is None:
            self._drops["a request too large to be kept"] += 1
        elif not self._helper.send({"coding": coding, "reply": message_of(reply)}, body):
            self._drops["the recorder can't keep up"] += 1
            self._incidents.tell("recording", "the recorder can't keep up: turns are dropped")

    def state(self) -> Recording:
        state = self._state
        drops = self._drops + Counter(state.get("drops", {}))
        return Recording(
            file=str(self._options.file),
            sessions_open=state.get("sessions_open", 0),
            sessions_written=self._sum("sessions_written"),
            turns=self._sum("turns"),
            joined=self._sum("joined"),
            bytes_written=self._sum("bytes_written"),
            redacted=self._sum("redacted"),
            drops=dict(drops),
            trouble=state.get("trouble"),
        )

    def _sum(self, name: str) -> int:
        return int(self._state.get(name, 0)) + self._earlier[name]

    def _told(self, frame: Frame) -> None:
        state, before = frame[0], self._state
        self._ready.set()
        if "failed" in state:
            self._failed = state["failed"]
            self._incidents.tell("recording", state["failed"])
            return
        self._state = state
        if state["trouble"] and state["trouble"] != before.get("trouble"):
            self._incidents.tell("recording", state["trouble"])
        if state.get("recovered") and not before:
            n = state["recovered"]
            self._incidents.tell("recording", f"{n} open sessions of an earlier run were written")

    def _trouble(self, what: str) -> None:
        for name in ("sessions_written", "turns", "joined", "bytes_written", "redacted"):
            self._earlier[name] += int(self._state.get(name, 0))
        self._drops.update(self._state.get("drops", {}))
        self._state = {}
        self._incidents.tell("recording", f"the recorder: {what}")


def probe(options: RecordOptions) -> None:
    """Raises JudgeError where the file can't be opened for appending, before anything starts."""
    file = options.file
    if file.suffix == ".gz":
        raise JudgeError(f"{file} can't be written: a recording is not compressed", Status.USAGE)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(file, "ab"):
            file.chmod(0o600) if not file.stat().st_size else None
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise JudgeError(f"{file} can't be written: {why}") from None


def message_of(reply: Reply) -> dict[str, Any]:
    """The reply as an assistant message."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.content}
    if reply.reasoning:
        field = reply.reasoning_field
        message["reasoning" if field == "reasoning_details" else field or "reasoning"] = (
            reply.reasoning
        )
    if reply.tool_calls:
        message["content"] = reply.content or None
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in reply.tool_calls
        ]
    return message
