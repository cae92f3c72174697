"""vLLM's custom dataset: a ``prompt`` a line; each is a session of one turn."""

from loadjudge.errors import JudgeError
from loadjudge.sessions.document import Document, Row
from loadjudge.sessions.importers.imported import Imported
from loadjudge.sessions.model import Session
from loadjudge.sessions.native import build_session, session_id


def import_custom(document: Document) -> Imported:
    """``output_tokens``, where given, becomes the session's ``max_tokens``."""
    return Imported(tuple(_session(row) for row in document.rows))


def _session(row: Row) -> Session:
    record = row.value
    prompt = record.get("prompt") if isinstance(record, dict) else None
    if not isinstance(prompt, str):
        raise JudgeError(f"{row.at}: a custom record needs a string under prompt.")
    tokens = record.get("output_tokens")
    return build_session(
        row.at,
        [{"role": "user", "content": prompt}],
        id=session_id(row, record.get("id")),
        # vLLM reads -1 as "until the model ends".
        max_tokens=None if tokens == -1 else tokens,
    )
