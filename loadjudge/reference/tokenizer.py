"""A byte-level subword tokenizer: 256 bytes, the special tokens, and pieces learned from text.

Text is split into words with their leading blank; a word that is a piece is one token, any other
is cut greedily, longest piece first, down to single bytes. So every string has an encoding, and
decoding is concatenation. Special tokens never come from text: only the chat template writes them.
"""

import codecs
import re
from collections import Counter
from collections.abc import Iterable, Sequence

SPECIALS = (
    "<|system|>",
    "<|user|>",
    "<|tool|>",
    "<|tools|>",
    "<|assistant|>",
    "<|agent|>",
    "<|end|>",
    "<|call|>",
    "<|args|>",
    "<|endcall|>",
)
FIRST_SPECIAL = 256
FIRST_PIECE = FIRST_SPECIAL + len(SPECIALS)
SYSTEM, USER, TOOL, TOOLS, ASSISTANT, AGENT, END, CALL, ARGS, ENDCALL = range(
    FIRST_SPECIAL, FIRST_PIECE
)
VOCAB_SIZE = 2048

_WORD = re.compile(r" ?[^\W\d_]+| ?\d{1,3}| ?[^\s\w]+|_+|\s+(?=\S)|\s+")
_LONGEST_PIECE = 14  # bytes
_CACHE_WORDS = 65536


class Tokenizer:
    """``pieces[i]`` is the byte string of token ``FIRST_PIECE + i``."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = tuple(pieces)
        singles = [bytes([b]) for b in range(256)]
        self._bytes = (*singles, *(name.encode() for name in SPECIALS), *self.pieces)
        self._ids = {single: b for b, single in enumerate(singles)}
        self._ids.update((piece, FIRST_PIECE + i) for i, piece in enumerate(self.pieces))
        self._words: dict[str, tuple[int, ...]] = {}

    @property
    def size(self) -> int:
        """Tokens in the vocabulary, specials included."""
        return len(self._bytes)

    def encode(self, text: str) -> list[int]:
        """Token ids of ``text``; never a special token. Lone surrogates become ``?``."""
        words = self._words
        out: list[int] = []
        for word in _WORD.findall(text):
            ids = words.get(word)
            if ids is None:
                if len(words) > _CACHE_WORDS:
                    words.clear()
                ids = words[word] = self._cut(word.encode("utf-8", "replace"))
            out += ids
        return out

    def _cut(self, word: bytes) -> tuple[int, ...]:
        known = self._ids
        out: list[int] = []
        start = 0
        while start < len(word):
            end = min(len(word), start + _LONGEST_PIECE)
            while word[start:end] not in known:
                end -= 1  # ends at a single byte, which is always known
            out.append(known[word[start:end]])
            start = end
        return tuple(out)

    def bytes_of(self, token: int) -> bytes:
        """The bytes of one token; a special token's are its name."""
        return self._bytes[token]

    def decode(self, ids: Iterable[int]) -> str:
        """Text of ``ids``, special tokens by name; bytes that are no UTF-8 become U+FFFD."""
        table = self._bytes
        return b"".join([table[i] for i in ids]).decode("utf-8", "replace")


class StreamDecoder:
    """Text of a growing reply: holds back the bytes of a character that isn't complete yet."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, token: int) -> str:
        """Text that ``token`` completes, perhaps none."""
        return self._utf8.decode(self._tokenizer.bytes_of(token))

    def flush(self) -> str:
        """What was held back, as U+FFFD; empty if nothing was."""
        text = self._utf8.decode(b"", True)
        self._utf8.reset()
        return text


def is_special(token: int) -> bool:
    """Whether ``token`` is one of ``SPECIALS``."""
    return FIRST_SPECIAL <= token < FIRST_PIECE


def learn(texts: Iterable[str], size: int = VOCAB_SIZE) -> Tokenizer:
    """The ``size`` - 256 - specials most useful pieces of ``texts``.

    A piece's use is the bytes that it saves: its count times its length less one. Two in three
    places go to whole words, the rest to fragments of the words that got none.
    """
    words: Counter[bytes] = Counter()
    for text in texts:
        words.update(word.encode("utf-8", "replace") for word in _WORD.findall(text))
    room = size - FIRST_PIECE
    whole = {w: n for w, n in words.items() if 1 < len(w) <= _LONGEST_PIECE and n > 2}
    pieces = _most_useful(whole, room * 2 // 3)
    taken = set(pieces)
    parts: Counter[bytes] = Counter()
    for word, n in words.items():
        if word in taken:
            continue
        word = word[: 4 * _LONGEST_PIECE]
        for length in range(2, 6):
            for start in range(len(word) - length + 1):
                parts[word[start : start + length]] += n
    fragments = {part: n for part, n in parts.items() if part not in taken}
    pieces += _most_useful(fragments, room - len(pieces))
    return Tokenizer(tuple(sorted(pieces)))


def _most_useful(counts: dict[bytes, int], room: int) -> list[bytes]:
    ranked: Sequence[tuple[bytes, int]] = sorted(
        counts.items(), key=lambda item: (-item[1] * (len(item[0]) - 1), item[0])
    )
    return [piece for piece, _ in ranked[:room]]
