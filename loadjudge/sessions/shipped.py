"""The sessions and texts that ship with loadjudge: the development split."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from loadjudge.errors import JudgeError, Status
from loadjudge.paths import data_root
from loadjudge.sessions.document import Row, read_document
from loadjudge.sessions.model import Kind, Session
from loadjudge.sessions.read import read_sessions


@dataclass(frozen=True, slots=True)
class Text:
    """A fixed text, for likelihoods under teacher forcing."""

    id: str
    kind: str
    language: str
    text: str


def load_split(kind: Kind | Literal["all"] = "all") -> list[Session]:
    """The shipped sessions of one kind, or chat and then agent sessions."""
    if kind != "all" and kind not in get_args(Kind):
        raise JudgeError(
            f"there are no shipped sessions of kind {kind!r}; it is chat, agent or all.",
            Status.USAGE,
        )
    kinds = get_args(Kind) if kind == "all" else (kind,)
    folder = data_root() / "sessions"
    return [
        session for name in kinds for session in read_sessions(folder / f"{name}.jsonl", "openai")
    ]


def load_texts(file: Path | None = None) -> list[Text]:
    """The texts of a file, those that ship by default, in order."""
    path = file or data_root() / "sessions" / "texts.jsonl"
    return [_text(row) for row in read_document(path).rows]


def _text(row: Row) -> Text:
    keys = ("id", "kind", "language", "text")
    if not isinstance(row.value, dict) or not all(
        isinstance(row.value.get(key), str) for key in keys
    ):
        raise JudgeError(f"{row.at}: a text needs the strings {', '.join(keys)}.")
    return Text(*(row.value[key] for key in keys))
