"""What the end of a log says: its last lines, and before them what went wrong.

Engines end with pages about their own shutdown; the error that ended them stands well before.
"""

import re
from collections.abc import Sequence
from pathlib import Path

_LAST = 15  # lines shown as they are
_ERRORS = 6  # lines before them that tell of errors
_READ = 400  # lines from the end that are looked at
# "RuntimeError: …", alone or behind a logger's prefix; "FooError" inside a sentence is none.
_RAISED = re.compile(r"(?:^|[\])] )((?:\w+\.)*\w*(?:Error|Exception|Interrupt): .+)")
_TOLD = re.compile(r"\b(?:ERROR|CRITICAL|FATAL)\b|\bdied\b")
_FRAME = re.compile(r"\] *(?:File \"|[~^ ]+$|Traceback )|\]\s{2,}")


def tail_of(log: Path) -> str:
    """The end of a log file, indented, for an error's sentence."""
    try:
        lines = log.read_text("utf-8", "replace").splitlines()
    except OSError:
        return "(no log)"
    return shown(lines)


def shown(lines: Sequence[str]) -> str:
    """Errors of the last 400 lines, and the last 15 as they are."""
    last = lines[-_LAST:]
    before = lines[-_READ:-_LAST] if len(lines) > _LAST else []
    errors = [line for line in before if _tells(line)][:_ERRORS]
    parts = [*errors, "…", *last] if errors else last
    return "\n".join(f"  {line}" for line in parts) or "  (it is empty)"


def cause_of(log: Path) -> str | None:
    """The first exception that the end of a log tells of: others follow from it."""
    try:
        lines = log.read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    return next((m[1] for line in lines[-_READ:] if (m := _RAISED.search(line))), None)


def _tells(line: str) -> bool:
    return bool(_RAISED.search(line) or (_TOLD.search(line) and not _FRAME.search(line)))
