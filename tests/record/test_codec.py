"""Plays to events and back, whole; and the prompt ids that only grow linearly."""

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadjudge.record.codec import play_event, play_from_event
from loadjudge.record.prompt import PromptIds
from loadjudge.record.values import PlayRecord, TurnRecord

seconds = st.floats(0, 1e4, allow_nan=False)
counts = st.none() | st.integers(0, 10**6)
ids = st.lists(st.integers(0, 5), max_size=6).map(tuple)
texts = st.text(st.characters(codec="utf-8"), max_size=8)


@st.composite
def plays(draw: st.DrawFn) -> PlayRecord:
    turns, history = [], ()
    for index in range(draw(st.integers(0, 4))):
        # Prompts that go on from the history, that leave it in the middle, and unknown ones.
        kept = draw(st.integers(0, len(history)))
        prompt = draw(st.none() | ids.map(lambda rest, k=kept, h=history: h[:k] + rest))
        reply = draw(st.none() | ids)
        known = draw(st.booleans())
        turns.append(
            TurnRecord(
                index=index,
                scheduled_s=draw(seconds),
                sent_s=draw(seconds),
                done_s=draw(seconds),
                arrivals=tuple(draw(st.lists(st.tuples(seconds, counts, st.integers(0, 99))))),
                first_content_s=draw(st.none() | seconds),
                finish_reason=draw(st.none() | st.sampled_from(["stop", "length", "tool_calls"])),
                tokens=draw(st.integers(0, 99)) if known else None,
                source=draw(st.sampled_from(["ids", "tokenizer", "usage"])) if known else None,
                reported_tokens=draw(counts),
                prompt_tokens=draw(counts),
                cached_tokens=draw(counts),
                content=draw(texts),
                reasoning=draw(texts),
                tool_calls=tuple(
                    {"id": i, "name": n, "arguments": a}
                    for i, n, a in draw(st.lists(st.tuples(texts, texts, texts), max_size=2))
                ),
                token_ids=reply,
                prompt_ids=prompt,
                error=draw(st.none() | st.tuples(st.just("http"), texts)),
                converted_results=draw(st.integers(0, 3)),
                repaired_calls=draw(st.integers(0, 3)),
                connected=draw(st.booleans()),
                resends=draw(st.integers(0, 3)),
                unanswered_calls=draw(st.integers(0, 3)),
            )
        )
        history = (prompt or ()) + (reply or ())
    return PlayRecord(
        session=draw(texts),
        play=draw(texts),
        measured=draw(st.booleans()),
        lane=draw(st.integers(0, 64)),
        turns=tuple(turns),
        outcome=draw(st.sampled_from(["done", "failed", "cut"])),
        waited_s=draw(seconds),
    )


@settings(max_examples=150, deadline=None)
@given(play=plays())
def test_a_play_comes_back_as_it_was(play: PlayRecord) -> None:
    event = orjson.loads(orjson.dumps(play_event(play)))
    counts = [[t.tokens, t.source] for t in play.turns]
    back = play_from_event(event, counts)
    assert back == play
    assert play_event(back) == play_event(play)  # what was read can be written again


def test_a_prompt_keeps_what_it_adds_to_the_turn_before_only(make: Any) -> None:
    turns = (
        make.turn(2, prompt_ids=(1, 2, 3), token_ids=(7, 8)),
        make.turn(2, prompt_ids=(1, 2, 3, 7, 8, 4), token_ids=(9, 9)),
        make.turn(2, prompt_ids=(1, 2, 3, 7, 5), token_ids=None),  # the reply was rewritten
    )
    kept = [t["prompt_ids"] for t in play_event(make.play("a", turns=turns))["turns"]]
    assert kept == [
        {"shared": 0, "ids": (1, 2, 3)},
        {"shared": 5, "ids": (4,)},
        {"shared": 4, "ids": (5,)},
    ]


def test_without_counts_a_play_is_uncounted(make: Any) -> None:
    back = play_from_event(orjson.loads(orjson.dumps(play_event(make.play("a")))), None)
    assert [(t.tokens, t.source) for t in back.turns] == [(None, None)]


def test_prompt_ids_behave_as_their_tuple() -> None:
    first = PromptIds((), (), 0, [1, 2, 3])
    second = PromptIds(first, (7, 8), 4, [9])
    whole = (1, 2, 3, 7, 9)
    assert second == whole
    assert second == PromptIds((), (), 0, list(whole))
    assert second != (1, 2, 3, 7, 8)
    assert second != list(whole)
    assert hash(second) == hash(whole)
    assert (len(second), second[-1], second[1:3]) == (5, 9, (2, 3))
    assert list(second) == list(whole)
    assert 7 in second


def test_prompt_ids_of_a_session_of_very_many_turns_can_be_put_together() -> None:
    prompt = PromptIds((), (), 0, [0])
    for turn in range(1, 5000):
        prompt = PromptIds(prompt, (turn,), 1, [turn])
    assert prompt == (0, 4999)


@pytest.mark.parametrize("broken", [{"turns": [{}]}, {}])
def test_an_event_that_lacks_a_key_says_which(broken: dict[str, Any]) -> None:
    with pytest.raises(KeyError):
        play_from_event(broken, None)
