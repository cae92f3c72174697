"""What a lane holds of the KV cache, as the engine's own tokenizer counts it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from loadjudge.errors import JudgeError
from loadjudge.load.context import expected_context, far_off, mean_reply
from loadjudge.load.task import HistoryPolicy
from loadjudge.sessions.model import Session, Turn


class Words:
    """An endpoint whose tokens are words; it counts messages only, tools add one each."""

    def __init__(self, refuses: bool = False, absent: bool = False) -> None:
        self._refuses, self._absent = refuses, absent
        self.asked = 0

    async def tokenize(
        self,
        model: str,
        *,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> tuple[int, ...] | None:
        self.asked += 1
        if self._refuses:
            raise JudgeError("the endpoint answered 400")
        if self._absent:
            return None
        return (0,) * (sum(len(m["content"].split()) for m in messages) + len(tools))


def session(id: str, *turns: tuple[str, str | None], tools: int = 0) -> Session:
    return Session(
        id=id,
        kind="chat",
        turns=tuple(
            Turn(
                ({"role": "user", "content": said},),
                None if reply is None else {"role": "assistant", "content": reply},
            )
            for said, reply in turns
        ),
        tools=({},) * tools,
    )


async def count(
    http: Words, *sessions: Session, reply: float = 10.0, history: HistoryPolicy = "own"
) -> float | None:
    return await expected_context(http, "m", sessions, reply, history)  # type: ignore[arg-type]


async def test_recorded_replies_count_where_they_go_into_the_history() -> None:
    two = session("a", ("one two", "three four five"), ("six", None))
    # Prompts of 2 and of 2 + 3 + 1 tokens, and half a reply on top of each.
    assert await count(Words(), two, history="recorded") == pytest.approx((2 + 6) / 2 + 5)
    # Else the model's own go there: a placeholder of one word, and a mean reply of ten.
    assert await count(Words(), two) == pytest.approx((2 + 4 + 10) / 2 + 5)


async def test_recorded_calls_stay_before_their_results() -> None:
    one = session("a", ("one two", None), ("six", None))
    call = {"role": "assistant", "content": "three four five", "tool_calls": [{"id": "1"}]}
    called = replace(one, turns=(replace(one.turns[0], recorded=call), one.turns[1]))
    assert await count(Words(), called) == pytest.approx((2 + 6) / 2 + 5)


@pytest.mark.parametrize(
    ("lanes", "corrected", "far"), [(10, 11, False), (8, 10, False), (8, 11, True), (9, 2, True)]
)
def test_a_second_probe_is_for_estimates_that_were_far_off(
    lanes: int, corrected: int, far: bool
) -> None:
    assert far_off(lanes, corrected) == far


async def test_replies_that_the_file_has_not_count_as_a_mean_reply() -> None:
    two = session("a", ("one two", None), ("six", None))
    # The second prompt holds 2 + 1 words, a placeholder of one, and a mean reply of ten.
    assert await count(Words(), two) == pytest.approx((2 + 4 + 10) / 2 + 5)


async def test_tools_count_and_a_session_counts_once() -> None:
    http = Words()
    one = session("a", ("one two", None), tools=3)
    assert await count(http, one, one) == pytest.approx(2 + 3 + 5)
    assert http.asked == 1


@pytest.mark.parametrize("http", [Words(refuses=True), Words(absent=True)])
async def test_an_endpoint_that_cannot_count_messages_gives_none(http: Words) -> None:
    assert await count(http, session("a", ("one", None))) is None


def test_a_mean_reply_is_of_what_was_said(make: Any) -> None:
    assert mean_reply([]) == 128.0
