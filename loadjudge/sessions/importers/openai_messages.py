"""Records of the native format, whose rules are in ``native``."""

from loadjudge.sessions.document import Document
from loadjudge.sessions.importers.imported import Imported, unknown_keys
from loadjudge.sessions.native import KNOWN_KEYS, session_from_row


def import_openai(document: Document) -> Imported:
    """A session a record; warns of keys that the format does not have."""
    counts: dict[str, int] = {}
    for row in document.rows:
        if isinstance(row.value, dict):
            for key in row.value.keys() - KNOWN_KEYS:
                counts[key] = counts.get(key, 0) + 1
    sessions = tuple(session_from_row(row) for row in document.rows)
    return Imported(sessions, unknown_keys(document.name, counts))
