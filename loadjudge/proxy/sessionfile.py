"""The recorded file and its journal: what survives a kill, a full disk, a torn line.

Each turn is appended to the journal (``FILE.journal``) as it comes; a session that has ended is
appended to FILE as one line of the native format, and struck out in the journal. A recorder that
was killed finds its open sessions in the journal, and writes them, when it starts again. A write
that fails leaves the file as it was.
"""

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Any

import orjson

from loadjudge.errors import JudgeError

_COMPACT = 16 << 20  # bytes of a journal below which it is left to grow


class Appended:
    """A file that lines are appended to, each wholly or not at all. One writer at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = -1
        self.size = 0
        self.open()

    def open(self) -> None:
        """Opens it, and cuts off a line that a crash has torn. Raises OSError and JudgeError."""
        # What people wrote is for the one who records it.
        self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise JudgeError(
                f"another process records to {self.path}: wait until it has ended"
            ) from None
        except OSError:
            pass  # a file system without locks
        self.size = _whole_lines(self._fd)
        os.ftruncate(self._fd, self.size)

    def append(self, line: bytes) -> None:
        """Raises OSError; the file then is as it was."""
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self.size)
            raise
        self.size += len(line)

    def read(self, at: int, length: int) -> bytes:
        return os.pread(self._fd, length, at)

    def sync(self) -> None:
        os.fsync(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _whole_lines(fd: int) -> int:
    """Bytes up to the end of the last whole line."""
    end = os.fstat(fd).st_size
    while end > 0:
        start = max(0, end - (1 << 16))
        at = os.pread(fd, end - start, start).rfind(b"\n")
        if at >= 0:
            return start + at + 1
        end = start
    return 0


class SessionFile:
    """FILE, its journal, and FILE's predecessors by size."""

    def __init__(self, path: Path, rotate_bytes: int) -> None:
        self.written = 0  # bytes, over all files
        self._rotate = rotate_bytes
        self._places: dict[str, list[tuple[int, int]]] = {}  # of a session's lines in the journal
        self._strikes: list[bytes] = []  # ended sessions that the journal doesn't know of yet
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = Appended(path)
            self._journal = Appended(path.with_name(path.name + ".journal"))
            self._index()
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise JudgeError(f"{path} can't be written: {why}") from None
        # Killed in between, the last one in FILE is not struck out in the journal.
        self._places.pop(self._last_id(), None)

    @property
    def open(self) -> tuple[str, ...]:
        """Ids of sessions that the journal holds; at the start, those of a recorder that died."""
        return tuple(self._places)

    def turn(self, session: str, event: dict[str, Any]) -> None:
        """Adds a turn to the journal. Raises OSError."""
        line = _line({"session": session, **event})
        self._strike()
        at = self._journal.size
        self._journal.append(line)
        self._places.setdefault(session, []).append((at, len(line)))

    def record(self, session: str) -> dict[str, Any]:
        """A session of the journal, put together as a record of the native format."""
        record: dict[str, Any] = {"id": session, "messages": [], "tools": []}
        for at, length in self._places.get(session, ()):
            event = orjson.loads(self._journal.read(at, length))
            record["messages"] += event["messages"]
            record["tools"] += event.get("tools") or []
            record["max_tokens"] = event.get("max_tokens")
        return record

    def end(self, session: str, line: bytes | None) -> None:
        """Appends an ended session to FILE; None: nothing is to be kept of it. Raises OSError."""
        if line is not None:
            if self._file.size and self._file.size + len(line) > self._rotate:
                self._set_aside()
            self._file.append(line)
            self.written += len(line)
        self._places.pop(session, None)
        self._strikes.append(_line({"session": session, "ended": True}))
        with contextlib.suppress(OSError):  # the next write to the journal brings it along
            self._strike()
            if self._journal.size > _COMPACT:
                self._compact()

    def close(self) -> None:
        """Ends it; a journal that holds nothing any more goes."""
        with contextlib.suppress(OSError):
            self._file.sync()
        if not self._places:
            self._journal.path.unlink(missing_ok=True)
        self._journal.close()
        self._file.close()

    def _strike(self) -> None:
        while self._strikes:
            self._journal.append(self._strikes[0])
            self._strikes.pop(0)

    def _set_aside(self) -> None:
        """FILE becomes FILE's next number: traffic.jsonl, traffic.1.jsonl, traffic.2.jsonl."""
        path = self._file.path
        number = 1
        while (aside := path.with_name(f"{path.stem}.{number}{path.suffix}")).exists():
            number += 1
        self._file.sync()
        os.rename(path, aside)
        self._file.close()
        self._file.open()

    def _compact(self) -> None:
        """Drops from a journal what has ended, where that is most of it."""
        held = sum(length for places in self._places.values() for _, length in places)
        if held * 2 > self._journal.size:
            return
        path = self._journal.path
        beside = path.with_name(path.name + ".new")
        with open(beside, "wb", opener=_private) as file:
            for places in self._places.values():
                file.writelines(self._journal.read(at, length) for at, length in places)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
        self._journal.close()
        self._journal.open()
        self._index()

    def _index(self) -> None:
        self._places.clear()
        at = 0
        with open(self._journal.path, "rb") as file:
            for line in file:
                event = orjson.loads(line)
                if event.get("ended"):
                    self._places.pop(event["session"], None)
                else:
                    self._places.setdefault(event["session"], []).append((at, len(line)))
                at += len(line)

    def _last_id(self) -> str:
        """The id of the last session in FILE."""
        end = self._file.size - 1
        if end <= 0:
            return ""
        start, tail = end, b""
        while start > 0 and b"\n" not in tail:
            start = max(0, start - (1 << 16))
            tail = self._file.read(start, end - start)
        try:
            return str(orjson.loads(tail.rpartition(b"\n")[2])["id"])
        except (orjson.JSONDecodeError, LookupError, TypeError):
            return ""  # a file of another's making


def _line(value: dict[str, Any]) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
