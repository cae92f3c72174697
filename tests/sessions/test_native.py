"""The native format: where the model speaks, what is kept, what is refused."""

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadjudge.errors import JudgeError
from loadjudge.sessions.document import Row
from loadjudge.sessions.model import Session
from loadjudge.sessions.native import session_from_row, session_to_json, session_to_line

BASH = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}


def user(text: str = "hi", **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **more}


def said(text: str | None = "yes", *calls: tuple[str, str, str], **more: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text, **more}
    if calls:
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for id, name, arguments in calls
        ]
    return message


def result(id: str, text: str = "ok", **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": text, **more}


def session(*messages: Any, **record: Any) -> Session:
    return session_from_row(Row("f.jsonl, line 7", 7, {"messages": list(messages), **record}))


def shape(found: Session) -> list[tuple[str, bool]]:
    """Roles sent and whether a reply is recorded, turn by turn."""
    return [
        ("+".join(m["role"] for m in turn.messages), turn.recorded is not None)
        for turn in found.turns
    ]


@pytest.mark.parametrize(
    ("messages", "turns"),
    [
        ([user()], [("user", False)]),
        ([user(), said()], [("user", True)]),
        ([user(), user()], [("user", False), ("user", False)]),
        ([user(), said(), user()], [("user", True), ("user", False)]),
        (
            [{"role": "system", "content": "s"}, user(), said()],
            [("system+user", True)],
        ),
        (
            [user(), said(None, ("a", "bash", "{}")), result("a")],
            [("user", True), ("tool", False)],
        ),
        (
            [user(), said(None, ("a", "x", "{}"), ("b", "x", "{}")), result("a"), result("b")],
            [("user", True), ("tool+tool", False)],
        ),
        (
            [user(), said(None, ("a", "bash", "{}")), result("a"), user(), said()],
            [("user", True), ("tool", False), ("user", True)],
        ),
        ([user(), result("a"), user()], [("user", False), ("tool", False), ("user", False)]),
    ],
)
def test_the_model_speaks_at_assistant_messages_and_where_none_is_recorded(
    messages: list[Any], turns: list[tuple[str, bool]]
) -> None:
    assert shape(session(*messages)) == turns


def test_developer_is_sent_as_system_and_noted() -> None:
    found = session({"role": "developer", "content": "d"}, user())
    assert found.turns[0].messages[0] == {"role": "system", "content": "d"}
    assert found.notes == ("the developer message is sent as a system message",)


def test_scripted_waits_leave_the_sent_message() -> None:
    found = session(
        user(),
        said(None, ("a", "x", "{}"), ("b", "x", "{}")),
        result("a", delay_seconds=0.5),
        result("b", delay_seconds=2),
        user(delay_seconds=3.25),
    )
    assert [turn.wait_s for turn in found.turns] == [0.0, 2.0, 3.25]
    assert all("delay_seconds" not in m for turn in found.turns for m in turn.messages)


def test_results_are_put_in_the_order_of_the_calls_that_they_answer() -> None:
    found = session(
        user(), said(None, ("a", "x", "{}"), ("b", "x", "{}")), result("b", "2"), result("a", "1")
    )
    assert [m["content"] for m in found.turns[1].messages] == ["1", "2"]


def test_ids_reused_within_a_session_are_accepted() -> None:
    found = session(
        user(),
        said(None, ("a", "x", "{}")),
        result("a", "1"),
        said(None, ("a", "x", "{}"), ("a", "x", "{}")),
        result("a", "2"),
        result("a", "3"),
    )
    assert [m["content"] for m in found.turns[2].messages] == ["2", "3"]


def test_missing_call_ids_are_filled_in_by_place() -> None:
    call = {"function": {"name": "x", "arguments": "{}"}}
    found = session(
        user(),
        {"role": "assistant", "tool_calls": [call, call]},
        {"role": "tool", "content": "1"},
        {"role": "tool", "content": "2"},
    )
    assert found.turns[0].recorded is not None
    ids = [call["id"] for call in found.turns[0].recorded["tool_calls"]]
    assert len(set(ids)) == 2
    assert [m["tool_call_id"] for m in found.turns[1].messages] == ids


def test_extra_keys_of_recorded_replies_and_text_parts_are_kept() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    found = session({"role": "user", "content": parts}, said("x", reasoning_content="hm"))
    assert found.turns[0].messages[0]["content"] == parts
    assert found.turns[0].recorded == {
        "role": "assistant",
        "content": "x",
        "reasoning_content": "hm",
    }


def test_tools_are_derived_from_calls_where_none_are_given() -> None:
    found = session(
        user(),
        said(None, ("a", "find", '{"text": "x", "limit": 3}')),
        result("a"),
        said(None, ("b", "find", '{"text": "y", "limit": 2.5, "in": ["p"]}')),
        result("b"),
        said(None, ("c", "stop", "not json")),
    )
    find, stop = found.tools
    assert find["function"]["parameters"] == {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "limit": {"type": "number"},
            "in": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["text", "limit"],
    }
    assert stop["function"] == {
        "name": "stop",
        "parameters": {"type": "object", "properties": {}, "required": []},
    }
    assert found.notes == ("tool definitions are derived from the recorded calls",)
    assert found.kind == "agent"


def test_arguments_given_as_objects_become_strings() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "x", "arguments": {"k": 1}}}
    found = session(user(), {"role": "assistant", "tool_calls": [call]})
    assert found.turns[0].recorded is not None
    assert found.turns[0].recorded["tool_calls"][0]["function"]["arguments"] == '{"k":1}'
    assert any("strings of JSON" in note for note in found.notes)


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        ({}, "chat"),
        ({"tools": [BASH]}, "agent"),
        ({"tools": [BASH], "kind": "chat"}, "chat"),
        ({"kind": "agent"}, "agent"),
    ],
)
def test_kind_is_as_given_or_follows_from_tools(record: dict[str, Any], kind: str) -> None:
    assert session(user(), **record).kind == kind


def test_an_id_is_made_of_the_line_where_none_is_given() -> None:
    assert session(user()).id == "line-7"
    assert session(user(), id=12).id == "12"


@pytest.mark.parametrize(
    ("messages", "sentence"),
    [
        ([], "no user message"),
        ([{"role": "system", "content": "s"}], "no user message"),
        ([said()], "begins with an assistant message"),
        ([user(), said(), said()], "two assistant messages in a row"),
        (
            [{"role": "system", "content": "s"}, {"role": "system", "content": "t"}, user()],
            "message 2: a second system message; put all of it into one",
        ),
        ([user(), {"role": "system", "content": "s"}], "a system message after other messages"),
        ([result("a")], "none comes before it"),
        ([{"role": "system", "content": "s"}, result("a")], "none comes before it"),
        ([user(), said("x"), result("a")], "makes no call"),
        (
            [user(), said(None, ("a", "x", "{}")), result("b")],
            "'b' answers no call of the assistant message before it .its calls are a",
        ),
        (
            [user(), said(None, ("a", "x", "{}"), ("b", "x", "{}")), result("a")],
            "makes 2, and 1 tool message",
        ),
        ([{"role": "robot", "content": "x"}], "role 'robot' is none of"),
        ([{"role": ["user"], "content": "x"}], "role list is none of"),
        (["hello"], "must be a JSON object"),
        ([{"role": "user"}], "not null"),
        ([{"role": "user", "content": 5}], "must be a string or a list of text parts, not 5"),
        (
            [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]}],
            "type 'image_url' cannot be played",
        ),
        ([user(), said(None)], "needs tool_calls"),
        ([user(delay_seconds=-1)], "delay_seconds must be"),
        ([user(delay_seconds=True)], "delay_seconds must be"),
        ([user(), said(delay_seconds=1)], "belongs on a user or tool message"),
        ([user(), {"role": "assistant", "tool_calls": [{"id": "a"}]}], "a function with a name"),
    ],
)
def test_what_breaks_a_rule_is_refused_with_its_place(messages: list[Any], sentence: str) -> None:
    with pytest.raises(JudgeError, match=sentence) as caught:
        session(*messages)
    assert caught.value.sentence.startswith("f.jsonl, line 7")


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        ({"kind": "game"}, "kind must be"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"tools": {}}, "tools must be a list"),
        ({"tools": [{"name": "bash"}]}, "tool 1 is not of the form"),
        ({"notes": "x"}, "notes"),
        ({"id": [1]}, "id must be a string"),
    ],
)
def test_records_with_wrong_fields_are_refused(record: dict[str, Any], sentence: str) -> None:
    with pytest.raises(JudgeError, match=sentence):
        session(user(), **record)


texts = st.text(st.characters(codec="utf-8"), max_size=12)
waits = st.one_of(st.none(), st.floats(0, 9).map(lambda value: round(value, 3)))


@st.composite
def records(draw: st.DrawFn) -> dict[str, Any]:
    """A valid record of the native format."""
    messages: list[dict[str, Any]] = []
    if draw(st.booleans()):
        messages.append({"role": draw(st.sampled_from(["system", "developer"])), "content": "s"})
    for number in range(draw(st.integers(1, 5))):
        prompt = user(draw(texts))
        if (wait := draw(waits)) is not None:
            prompt["delay_seconds"] = wait
        messages.append(prompt)
        if not draw(st.booleans()):
            continue
        calls = [(f"c{number}{n}", draw(texts), "{}") for n in range(draw(st.integers(0, 3)))]
        messages.append(said(draw(texts), *calls))
        if calls and draw(st.booleans()):
            messages += [result(id) for id, _, _ in draw(st.permutations(calls))]
    record: dict[str, Any] = {"messages": messages}
    if draw(st.booleans()):
        record["tools"] = [BASH]
    if draw(st.booleans()):
        record |= {"id": draw(texts), "max_tokens": draw(st.integers(1, 99))}
    return record


@settings(max_examples=80, deadline=None)
@given(records())
def test_reading_what_was_written_gives_an_equal_session(record: dict[str, Any]) -> None:
    found = session_from_row(Row("f.jsonl, line 1", 1, record))
    written = orjson.loads(session_to_line(found))
    assert written == session_to_json(found)
    assert session_from_row(Row("f.jsonl, line 9", 9, written)) == found
