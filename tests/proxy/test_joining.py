"""Which requests make one session."""

import random
from typing import Any

import pytest

from loadjudge.proxy.joining import Joiner, Said, canonical

Message = dict[str, Any]


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str | None, **more: Any) -> Message:
    return {"role": "assistant", "content": text, **more}


def call(name: str, arguments: str, id: str = "c1") -> Message:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_a_request_that_goes_on_with_another_joins_its_session() -> None:
    joiner = Joiner(10)
    first, _ = joiner.take(Said([user("a")], assistant("b")), 0)
    second, _ = joiner.take(Said([user("a"), assistant("b"), user("c")], assistant("d")), 1)
    third, _ = joiner.take(
        Said([user("a"), assistant("b"), user("c"), assistant("d"), user("e")], assistant("f")), 2
    )
    assert first.first
    assert (second.first, third.first) == (False, False)
    assert first.session == second.session == third.session
    assert second.messages == (user("c"), assistant("d"))
    assert third.messages == (user("e"), assistant("f"))
    assert joiner.joined == 2


@pytest.mark.parametrize(
    ("reply", "sent_back"),
    [
        (assistant("b"), assistant(" b\n")),
        (assistant("b"), {**assistant("b"), "refusal": None, "audio": None, "annotations": []}),
        (assistant("b"), assistant(None, content=[{"type": "text", "text": "b"}])),
        (assistant("b", reasoning="why"), assistant("b")),
        (
            assistant(None, tool_calls=[call("f", '{"a": 1, "b": 2}')]),
            assistant("", tool_calls=[call("f", '{"b":2,"a":1}')]),
        ),
        (assistant(None, tool_calls=[call("f", "")]), assistant("", tool_calls=[call("f", "{}")])),
    ],
    ids=["blanks", "more keys", "parts", "no reasoning", "spacing of arguments", "no arguments"],
)
def test_a_reply_is_known_again_as_clients_send_it_back(reply: Message, sent_back: Any) -> None:
    joiner = Joiner(10)
    first, _ = joiner.take(Said([user("a")], reply), 0)
    second, _ = joiner.take(Said([user("a"), sent_back, user("c")], assistant("d")), 0)
    assert second.session == first.session
    assert second.messages == (user("c"), assistant("d"))


@pytest.mark.parametrize(
    "other",
    [
        [user("a"), assistant("not b"), user("c")],
        [user("A"), assistant("b"), user("c")],
        [user("a"), assistant("b", tool_calls=[call("f", "{}")]), user("c")],
        [{"role": "system", "content": "s"}, user("a"), assistant("b"), user("c")],
        [user("a"), user("c")],
    ],
    ids=["another reply", "another question", "a call", "a system message", "no reply"],
)
def test_what_does_not_go_on_is_a_session_of_its_own(other: list[Message]) -> None:
    joiner = Joiner(10)
    first, _ = joiner.take(Said([user("a")], assistant("b")), 0)
    second, _ = joiner.take(Said(other, assistant("d")), 0)
    assert second.session != first.session
    assert second.messages == (*other, assistant("d"))


def test_a_branch_is_a_session_of_its_own_with_the_whole_conversation() -> None:
    joiner = Joiner(10)
    start = [user("a"), assistant("b")]
    joiner.take(Said([user("a")], assistant("b")), 0)
    trunk, _ = joiner.take(Said([*start, user("c")], assistant("d")), 1)
    again, _ = joiner.take(Said([*start, user("c")], assistant("d, made anew")), 2)
    edited, _ = joiner.take(Said([*start, user("C")], assistant("D")), 3)
    assert len({trunk.session, again.session, edited.session}) == 3
    assert again.messages == (*start, user("c"), assistant("d, made anew"))
    on, _ = joiner.take(
        Said([*start, user("c"), assistant("d, made anew"), user("e")], assistant("f")), 4
    )
    assert on.session == again.session
    old, _ = joiner.take(Said([*start, user("c"), assistant("d"), user("e")], assistant("g")), 5)
    assert old.session == trunk.session


def test_sessions_that_say_the_same_at_the_same_time_stay_apart() -> None:
    joiner = Joiner(10)
    ones = [joiner.take(Said([user("a")], assistant("b")), i)[0].session for i in range(3)]
    assert len(set(ones)) == 3
    went_on = [
        joiner.take(Said([user("a"), assistant("b"), user(f"c{i}")], assistant("d")), 5)[0].session
        for i in range(3)
    ]
    assert sorted(went_on) == sorted(ones)


def test_results_of_calls_join_and_tools_are_kept_once() -> None:
    joiner = Joiner(10)
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    reply = assistant(None, tool_calls=[call("f", "{}")])
    result = {"role": "tool", "tool_call_id": "c1", "content": "42"}
    first, _ = joiner.take(Said([user("a")], reply, tools), 0)
    more = [*tools, {"type": "function", "function": {"name": "g"}}]
    second, _ = joiner.take(Said([user("a"), reply, result], assistant("42!"), more), 0)
    assert first.tools == tuple(tools)
    assert second.session == first.session
    assert [t["function"]["name"] for t in second.tools] == ["g"]
    assert second.messages == (result, assistant("42!"))


def test_the_limit_of_a_session_is_the_largest_unless_a_request_had_none() -> None:
    joiner = Joiner(10)
    one, _ = joiner.take(Said([user("a")], assistant("b"), max_tokens=5), 0)
    two, _ = joiner.take(
        Said([user("a"), assistant("b"), user("c")], assistant("d"), max_tokens=9), 0
    )
    history = [user("a"), assistant("b"), user("c"), assistant("d"), user("e")]
    three, _ = joiner.take(Said(history, assistant("f")), 0)
    assert [one.max_tokens, two.max_tokens, three.max_tokens] == [5, 9, None]


def test_the_session_that_was_idle_longest_gives_way() -> None:
    joiner = Joiner(2)
    one, _ = joiner.take(Said([user("1")], assistant("r")), 0)
    two, _ = joiner.take(Said([user("2")], assistant("r")), 1)
    joiner.take(Said([user("1"), assistant("r"), user("x")], assistant("s")), 2)
    _, gone = joiner.take(Said([user("3")], assistant("r")), 3)
    assert gone == [two.session]
    assert joiner.idle(2.5) == [one.session]
    assert len(joiner) == 1
    late, _ = joiner.take(Said([user("2"), assistant("r"), user("y")], assistant("s")), 4)
    assert late.first


def test_many_sessions_interleaved_and_branched_come_out_as_they_were_held() -> None:
    """A simulation: every conversation's turns, put together, are what was said in it."""
    draw = random.Random(3)
    joiner = Joiner(1000)
    held: dict[str, list[Message]] = {}
    live: list[tuple[str, list[Message]]] = []
    for step in range(2000):
        if live and draw.random() < 0.8:
            name, history = live.pop(draw.randrange(len(live)))
            if draw.random() < 0.1 and len(history) > 2:  # goes back, and says something else
                history, name = history[:-2], ""
        else:
            name, history = "", []
        asked = [*history, user(f"u{step}")]
        reply = assistant(f"r{step}")
        turn, _ = joiner.take(Said(asked, reply), step)
        assert turn.first == (name == "")
        held.setdefault(turn.session, []).extend(turn.messages)
        live.append((turn.session, [*asked, reply]))
        assert held[turn.session] == [*asked, reply]


@pytest.mark.parametrize(("id", "joins"), [("call_f3a9c1d2e4b5", True), ("call_0", False)])
def test_repaired_arguments_join_where_ids_tell_the_calls_apart(id: str, joins: bool) -> None:
    joiner = Joiner(10)
    reply = assistant(None, tool_calls=[call("f", '{"a": ', id)])
    repaired = assistant(None, tool_calls=[call("f", '{"text":"{\\"a\\": "}', id)])
    result = {"role": "tool", "tool_call_id": id, "content": "42"}
    first, _ = joiner.take(Said([user("a")], reply), 0)
    second, _ = joiner.take(Said([user("a"), repaired, result], assistant("b")), 0)
    assert (second.session == first.session) is joins
    third, _ = joiner.take(
        Said([user("a"), repaired, result, assistant("b"), user("c")], assistant("d")), 0
    )
    assert third.session == second.session
    assert joiner.idle(1) == ([first.session] if joins else [first.session, second.session])
    assert not joiner._by_tip


def test_what_is_no_message_is_refused() -> None:
    for message in ("text", {"content": "x"}, {"role": 3}):
        with pytest.raises(ValueError, match="role"):
            canonical(message)
    with pytest.raises(ValueError, match="function"):
        canonical({"role": "assistant", "tool_calls": [{"id": "x"}]})
