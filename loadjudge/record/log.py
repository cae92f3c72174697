"""``events.jsonl``: the one durable log of a run. Everything else is derived from it.

An event is one line, written by one ``write`` to a file opened for appending, so a process
that is killed leaves at most one torn line, at the end; readers pass over it and ``RunLog``
cuts it off before it appends again.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import orjson

from loadjudge.errors import JudgeError, Status

EVENTS = "events.jsonl"
Event = dict[str, Any]


class RunLog:
    """Appends events. ``sync`` makes what was written survive a crash of the machine.

    Every failure is a JudgeError. A log has one writer at a time.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / EVENTS
        try:
            self._fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError as e:
            raise JudgeError(f"the log {self.path} can't be opened: {_reason(e)}") from None
        _lock(self._fd, self.path)
        _cut_torn_line(self.path)

    def append(self, event: Event) -> None:
        line = orjson.dumps(event, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n"
        start = os.fstat(self._fd).st_size
        try:
            while line:
                line = line[os.write(self._fd, line) :]
        except OSError as e:
            # What came of the line goes, or the next event would be written onto its torn end.
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, start)
            raise self._unwritable(e) from None

    def sync(self) -> None:
        try:
            os.fsync(self._fd)
        except OSError as e:
            raise self._unwritable(e) from None

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _unwritable(self, error: OSError) -> JudgeError:
        return JudgeError(
            f"the log {self.path} can't be written: {_reason(error)}; free some space and go on "
            f"with --resume",
            Status.RUN,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _lock(fd: int, path: Path) -> None:
    """Keeps a second writer out: a run that is resumed while it still goes would be lost."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise JudgeError(
            f"another loadjudge writes to {path.parent}: wait until it has ended",
        ) from None
    except OSError:
        return  # a file system without locks


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _cut_torn_line(path: Path) -> None:
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(path, whole)


def read_events(directory: Path) -> Iterator[Event]:
    """The events of a run in order; a torn last line is passed over.

    Raises JudgeError where there is no log, or a line inside it is not JSON.
    """
    path = directory / EVENTS
    try:
        data = path.read_bytes()
    except OSError as e:
        raise JudgeError(f"{directory} is not a run directory: {EVENTS}: {_reason(e)}") from None
    lines = data.split(b"\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            event = orjson.loads(line)
        except orjson.JSONDecodeError as e:
            raise JudgeError(f"{path}, line {number}: not JSON: {e}") from None
        if not isinstance(event, dict) or "event" not in event:
            raise JudgeError(f"{path}, line {number}: not an event")
        yield event
