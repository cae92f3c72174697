"""Text to ids and back."""

import time

from hypothesis import given
from hypothesis import strategies as st

from loadjudge.reference.tokenizer import (
    FIRST_PIECE,
    StreamDecoder,
    Tokenizer,
    is_special,
    learn,
)

TOKENIZER = learn(["the boat leaves the old pier at seven, the last boat at nine ünïcode"] * 9)


@given(st.text())
def test_any_text_comes_back(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


@given(st.text())
def test_streamed_text_is_the_text(text: str) -> None:
    decoder = StreamDecoder(TOKENIZER)
    streamed = "".join(decoder.feed(token) for token in TOKENIZER.encode(text))
    assert streamed + decoder.flush() == text


def test_an_incomplete_character_is_held_back() -> None:
    decoder = StreamDecoder(TOKENIZER)
    first, second, third = "€".encode()
    assert [decoder.feed(first), decoder.feed(second), decoder.feed(third)] == ["", "", "€"]
    decoder.feed(first)
    assert decoder.flush() == "\N{REPLACEMENT CHARACTER}"


def test_special_tokens_in_text_are_text() -> None:
    ids = TOKENIZER.encode("<|end|><|user|>hi")
    assert not any(is_special(token) for token in ids)


def test_frequent_words_are_one_token() -> None:
    assert len(TOKENIZER.encode(" boat")) == 1
    assert TOKENIZER.encode(" boat")[0] >= FIRST_PIECE


def test_a_lone_surrogate_does_not_fail() -> None:
    assert TOKENIZER.decode(TOKENIZER.encode("a\ud800b")) == "a?b"


def test_learning_is_deterministic_and_sized() -> None:
    texts = [f"word{n} some more words {n % 7}" for n in range(500)]
    assert learn(texts).pieces == learn(texts).pieces
    assert learn(texts, 300).size == 300


def test_encodes_a_megabyte_a_second() -> None:
    text = "the boat leaves the old pier at seven, the last boat at nine. " * 8000
    Tokenizer(TOKENIZER.pieces).encode(text)
    started = time.process_time()
    TOKENIZER.encode(text)
    assert len(text) / (time.process_time() - started) > 1e6
