"""The text that the model is built from: session files, rendered by the chat template."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from loadjudge.errors import JudgeError
from loadjudge.paths import data_root
from loadjudge.reference.chat import render, reply_ids, text_of
from loadjudge.reference.tokenizer import Tokenizer

Document = Mapping[str, Any]  # a session's JSON object, or {"text": ...}

_SHIPPED = ("chat.jsonl", "agent.jsonl", "texts.jsonl")


def shipped_files(root: Path | None = None) -> tuple[Path, ...]:
    """The session files to build from, in a fixed order."""
    folder = (root or data_root()) / "sessions"
    files = [folder / name for name in _SHIPPED if (folder / name).is_file()]
    if not files:
        raise JudgeError(
            f"the embedded engine found no session files in {folder}: "
            "its model is built from them; install loadjudge with its data"
        )
    return tuple(files)


@dataclass(frozen=True)
class Corpus:
    """Documents, and the raw bytes that stand for them in the cache key."""

    documents: tuple[Document, ...]
    raw: bytes


def read_corpus(files: Sequence[Path]) -> Corpus:
    """Reads JSONL files; lines that are no JSON object are skipped, as a file may be in writing."""
    raw = b"\0".join(path.read_bytes() for path in files)
    documents = []
    for line in raw.replace(b"\0", b"\n").splitlines():
        try:
            document = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(document, dict):
            documents.append(document)
    return Corpus(tuple(documents), raw)


def corpus_of(documents: Iterable[Document]) -> Corpus:
    """A corpus from values, for tests."""
    kept = tuple(documents)
    return Corpus(kept, orjson.dumps(kept))


def texts(corpus: Corpus) -> Iterator[str]:
    """Every piece of plain text, for the tokenizer to learn from."""
    for document in corpus.documents:
        for message in document.get("messages") or ():
            yield text_of(message.get("content"))
            for call in message.get("tool_calls") or ():
                arguments = (call.get("function") or {}).get("arguments")
                yield arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
        if isinstance(document.get("text"), str):
            yield document["text"]


def token_streams(corpus: Corpus, tokenizer: Tokenizer) -> Iterator[list[int]]:
    """Token ids of every document."""
    for document in corpus.documents:
        messages = document.get("messages") or ()
        if messages:
            yield render(tokenizer, messages, document.get("tools") or (), generate=False)
        if isinstance(document.get("text"), str):
            yield reply_ids(tokenizer, {"content": document["text"]})
