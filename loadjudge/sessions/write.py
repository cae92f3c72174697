"""Writing sessions in the native format."""

import gzip
import sys
from collections.abc import Iterable
from pathlib import Path

from loadjudge.errors import JudgeError
from loadjudge.sessions.model import Session
from loadjudge.sessions.native import session_to_line


def write_sessions(path: str | Path, sessions: Iterable[Session]) -> None:
    """Write ``sessions`` as JSON lines; ``-`` is stdout, and a ``.gz`` path is gzipped."""
    data = b"".join(session_to_line(session) for session in sessions)
    if str(path) == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    path = Path(path)
    if path.suffix == ".gz":
        data = gzip.compress(data, mtime=0)  # the same sessions give the same bytes
    try:
        path.write_bytes(data)
    except OSError as error:
        raise JudgeError(f"{path} cannot be written: {error.strerror}.") from None
