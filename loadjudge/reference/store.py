"""Building the model once: counts and pieces, cached under the user's cache folder."""

import hashlib
import os
import tempfile
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from loadjudge.reference import chat, corpus, ngram, tokenizer
from loadjudge.reference.corpus import Corpus, read_corpus, shipped_files, texts, token_streams
from loadjudge.reference.model import TARGET, Model, Shape, build
from loadjudge.reference.ngram import Counts, Table, count
from loadjudge.reference.tokenizer import Tokenizer, learn


def shipped_model(shape: Shape = TARGET) -> Model:
    """The model of the session files that ship, from the cache or built and cached."""
    return cached_model(read_corpus(shipped_files()), shape)


def cached_model(source: Corpus, shape: Shape = TARGET) -> Model:
    """The model of ``source``. A cache that can't be read is built anew; one that can't be
    written is done without."""
    path = _cache_folder() / f"reference-{_key(source)}.npz"
    try:
        words, counts = _load(path)
    except (OSError, ValueError, KeyError, BadZipFile):
        words, counts = count_corpus(source)
        _save(path, words, counts)
    return build(words, counts, shape)


def model_of(source: Corpus, shape: Shape = TARGET) -> Model:
    """The model of ``source``, built here and now."""
    return build(*count_corpus(source), shape)


def with_shape(model: Model, shape: Shape) -> Model:
    """The same counts under other constants, such as a draft's."""
    return replace(model, shape=shape)


def count_corpus(source: Corpus) -> tuple[Tokenizer, Counts]:
    """Tokenizer and counts of ``source``."""
    words = learn(texts(source))
    return words, count(token_streams(source, words), words.size)


def _cache_folder() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "loadjudge"


def _key(source: Corpus) -> str:
    """Of the text and of the code that counts it, so that neither goes stale."""
    digest = hashlib.sha256(source.raw)
    for module in (tokenizer, chat, corpus, ngram):
        digest.update(Path(module.__file__ or "").read_bytes())
    return digest.hexdigest()[:16]


def _save(path: Path, words: Tokenizer, counts: Counts) -> None:
    arrays: dict[str, Any] = {
        "unigram": counts.unigram,
        "pieces": np.frombuffer(b"".join(words.pieces), np.uint8),
        "sizes": np.array([len(piece) for piece in words.pieces]),
    }
    for order, table in enumerate(counts.tables, 2):
        arrays |= {f"{f.name}{order}": getattr(table, f.name) for f in fields(Table)}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Two engines may start at once: each writes its own file, the last rename wins.
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
            np.savez(file, **arrays)
        Path(file.name).replace(path)
    except OSError:
        return


def _load(path: Path) -> tuple[Tokenizer, Counts]:
    with np.load(path) as arrays:
        joined, ends = arrays["pieces"].tobytes(), np.cumsum(arrays["sizes"]).tolist()
        starts = [0, *ends[:-1]] if ends else []
        pieces = [joined[a:b] for a, b in zip(starts, ends, strict=True)]
        tables = tuple(
            Table(**{f.name: arrays[f"{f.name}{order}"] for f in fields(Table)})
            for order in range(2, ngram.MAX_ORDER + 1)
        )
        return Tokenizer(pieces), Counts(arrays["unigram"], tables)
