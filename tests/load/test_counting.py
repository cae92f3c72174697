"""Who is believed about how many tokens a reply had."""

from typing import Any

import pytest

from loadjudge.errors import JudgeError
from loadjudge.load.counting import Counter, decodes_to, spoken
from loadjudge.servers.endpoint import Abilities


def abilities(**changes: Any) -> Abilities:
    values: dict[str, Any] = {
        "model": "m",
        "max_model_len": None,
        "version": None,
        "family": "vllm",
        "token_ids": True,
        "tokenize": True,
        "detokenize": True,
        "prompt_logprobs": True,
        "prefix_reset": True,
        "salts": True,
        "kv_tokens": None,
    }
    return Abilities(**{**values, **changes})


class Stock:
    """A stock endpoint whose tokens are words: id 7 is "w7 ", and id 0 ends a reply."""

    async def detokenize(self, model: str, ids: tuple[int, ...]) -> str | None:
        if any(i > 99 for i in ids):
            raise JudgeError("the endpoint answered 400 on /detokenize: no such token")
        return "".join("<end>" if i == 0 else f"w{i} " for i in ids)

    async def tokenize(self, model: str, *, text: str, add_special_tokens: bool) -> tuple[int, ...]:
        assert not add_special_tokens
        return tuple(int(w[1:]) for w in text.split())


async def counted(make: Any, able: Abilities, **changes: Any) -> tuple[int | None, str | None]:
    values = {"content": "w1 w2 w3 ", "token_ids": (1, 2, 3, 0), "reported_tokens": 9}
    turn = make.turn(None, **{**values, **changes})
    counts = await Counter(Stock(), able).count([make.play("a", turns=(turn,))])  # type: ignore[arg-type]
    [[count]] = counts.values()
    return count


async def test_ids_that_decode_to_the_text_count(make: Any) -> None:
    assert await counted(make, abilities()) == (4, "ids")


async def test_ids_of_another_text_give_way_to_the_tokenizer(make: Any) -> None:
    """Three words and the end of the reply."""
    assert await counted(make, abilities(), token_ids=(1, 2, 4, 0)) == (4, "tokenizer")
    assert await counted(make, abilities(), token_ids=(1, 2) * 50) == (4, "tokenizer")


async def test_a_reply_that_was_cut_at_max_tokens_has_no_end_token(make: Any) -> None:
    cut = {"token_ids": None, "finish_reason": "length"}
    assert await counted(make, abilities(), **cut) == (3, "tokenizer")


async def test_ids_that_no_vocabulary_holds_are_not_the_end_of_the_run(make: Any) -> None:
    """The stock engine refuses to decode them, and the run was given up for that."""
    assert await counted(make, abilities(), token_ids=(1, 2, 999)) == (4, "tokenizer")


async def test_without_detokenize_ids_are_not_believed(make: Any) -> None:
    assert await counted(make, abilities(detokenize=False)) == (4, "tokenizer")


async def test_usage_stands_alone_only_where_there_is_neither(make: Any) -> None:
    bare = abilities(tokenize=False, detokenize=False)
    assert await counted(make, bare) == (9, "usage")
    assert await counted(make, bare, reported_tokens=None) == (None, None)


async def test_a_turn_that_failed_counts_nothing(make: Any) -> None:
    assert await counted(make, abilities(), error=("http", "500")) == (None, None)


async def test_counts_come_back_by_play_and_turn(make: Any) -> None:
    turns = (make.turn(content="w1 ", token_ids=(1,)), make.failed_turn())
    plays = [make.play("a", turns=turns), make.play("b", turns=turns[:1]), make.play("c", turns=())]
    counts = await Counter(Stock(), abilities()).count(plays)  # type: ignore[arg-type]
    assert counts == {"a#0": [(1, "ids"), (None, None)], "b#0": [(1, "ids")], "c#0": []}


async def test_a_tokenizer_that_fails_is_one_sentence(make: Any) -> None:
    class Broken(Stock):
        async def tokenize(self, *_: Any, **__: Any) -> Any:
            raise JudgeError("the endpoint can't be reached")

    turn = make.turn(token_ids=None)
    with pytest.raises(JudgeError, match="can't be reached"):
        await Counter(Broken(), abilities()).count(  # type: ignore[arg-type]
            [make.play("a", turns=(turn, turn))]
        )


CALL = {"id": "c", "name": "look", "arguments": '{"at": "here"}'}


@pytest.mark.parametrize(
    ("text", "said", "same"),
    [
        ("hello there", {"content": "hello there"}, True),
        ("hello there<|im_end|>", {"content": "hello there"}, True),
        (" hello there</s>", {"content": "hello there"}, True),
        ("hello there", {"content": " hello there"}, True),  # the decoder drops a first blank
        ("hello", {"content": "hello there"}, False),
        ("hello there", {"content": "hello  there"}, False),
        ("hello there" + " and more" * 20, {"content": "hello there"}, False),
        ("hello there" + "\n" * 200, {"content": "hello there"}, False),  # blanks are tokens too
        ("hello there" + "\n" * 200, {"content": "hello there" + "\n" * 200}, True),
        ("<think>hm</think>\n\nso", {"reasoning": "hm", "content": "so"}, True),
        ("so<think>hm</think>", {"reasoning": "hm", "content": "so"}, False),  # out of order
        ("<think>hm</think>so", {"content": "so", "reasoning": "other"}, False),
        (
            '<tool_call>{"name": "look", "arguments": {"at": "here"}}</tool_call>',
            {"tool_calls": (CALL,)},
            True,
        ),
        ('<tool_call>{"name": "leap"}</tool_call>', {"tool_calls": (CALL,)}, False),
        ("", {}, True),
        ("<|im_end|>", {}, True),
        ("hidden " * 20, {}, False),
    ],
)
def test_ids_decode_to_what_was_served_and_to_little_else(
    make: Any, text: str, said: dict[str, Any], same: bool
) -> None:
    assert decodes_to(text, make.turn(**{"content": "", **said})) == same


def test_all_that_a_reply_said_is_spoken(make: Any) -> None:
    turn = make.turn(reasoning="hm ", content="so ", tool_calls=(CALL,))
    assert spoken(turn) == 'hm so look{"at": "here"}'
