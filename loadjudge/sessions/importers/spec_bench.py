"""Spec-Bench and MT-bench: ``question_id``, ``category`` and ``turns``, a list of user texts."""

from loadjudge.errors import JudgeError
from loadjudge.sessions.document import Document, Row
from loadjudge.sessions.importers.imported import Imported
from loadjudge.sessions.model import Session
from loadjudge.sessions.native import build_session, session_id


def import_spec_bench(document: Document) -> Imported:
    """A model turn after each text; reference answers are ignored, as nothing is graded here."""
    return Imported(tuple(_session(row) for row in document.rows))


def _session(row: Row) -> Session:
    record = row.value
    turns = record.get("turns") if isinstance(record, dict) else None
    if not isinstance(turns, list) or not turns or not all(isinstance(t, str) for t in turns):
        raise JudgeError(f"{row.at}: a Spec-Bench record needs a list of strings under turns.")
    messages = [{"role": "user", "content": text} for text in turns]
    return build_session(row.at, messages, id=session_id(row, record.get("question_id")))
