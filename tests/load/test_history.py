"""What a session's next request says."""

from typing import Any

import orjson
import pytest

from loadjudge.load.history import UNANSWERED, History
from loadjudge.sessions.model import Session, Turn
from loadjudge.wire.reply import Reply, ToolCall

USER = {"role": "user", "content": "hi"}


def reply(content: str = "", calls: tuple[ToolCall, ...] = (), **changes: Any) -> Reply:
    values: dict[str, Any] = {
        "reasoning": "",
        "reasoning_field": None,
        "finish_reason": "stop",
        "token_ids": None,
        "prompt_token_ids": None,
        "usage": None,
        "arrivals": (),
        "t_first_content_ns": None,
        "done": True,
    }
    return Reply(content=content, tool_calls=calls, **{**values, **changes})


def result(content: str, id: str) -> dict[str, Any]:
    return {"role": "tool", "content": content, "tool_call_id": id}


def history(*turns: Turn, policy: Any = "own", keep_reasoning: bool = True) -> History:
    return History(Session("s", "agent", turns), policy, keep_reasoning)


def after_calls(*calls: ToolCall, results: int) -> tuple[History, list[dict[str, Any]]]:
    """The messages after a reply with these calls, of a session with so many results."""
    one = Turn((USER,))
    two = Turn((*(result(f"r{i}", f"file{i}") for i in range(results)), USER))
    h = history(one, two)
    h.begin(one)
    h.end(one, reply("", calls))
    return h, h.begin(two)


def test_later_requests_carry_the_models_own_earlier_replies() -> None:
    turn = Turn((USER,), recorded={"role": "assistant", "content": "of the file"})
    h = history(turn, turn)
    assert h.begin(turn) == [USER]
    h.end(turn, reply("my own"))
    assert h.begin(turn) == [USER, {"role": "assistant", "content": "my own"}, USER]


def test_by_the_recorded_policy_they_carry_the_files() -> None:
    recorded = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "file0", "type": "function", "function": {}}],
    }
    one, two = Turn((USER,), recorded=recorded), Turn((result("r0", "file0"),))
    h = history(one, two, policy="recorded")
    h.begin(one)
    h.end(one, reply("my own", (ToolCall("x", "f", "{}"), ToolCall("y", "f", "{}"))))
    assert h.begin(two) == [USER, recorded, result("r0", "file0")]
    assert (h.converted_results, h.unanswered_calls) == (0, 0)


def test_where_the_file_records_nothing_the_recorded_policy_takes_the_models_own() -> None:
    h = history(Turn((USER,)), policy="recorded")
    h.end(Turn((USER,)), reply("my own"))
    assert h.messages == [{"role": "assistant", "content": "my own"}]


def test_results_answer_the_models_calls_by_place_under_their_ids() -> None:
    h, messages = after_calls(ToolCall("m0", "f", '{"a": 1}'), ToolCall("m1", "g", ""), results=2)
    assert messages[2:] == [result("r0", "m0"), result("r1", "m1"), USER]
    calls = messages[1]["tool_calls"]
    assert [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in calls] == [
        ("m0", "f", '{"a": 1}'),
        ("m1", "g", "{}"),
    ]
    assert messages[1]["content"] is None
    assert (h.converted_results, h.unanswered_calls, h.repaired_calls) == (0, 0, 0)


def test_a_result_that_no_call_asked_for_goes_in_as_the_users() -> None:
    h, messages = after_calls(ToolCall("m0", "f", "{}"), results=3)
    assert messages[2:] == [
        result("r0", "m0"),
        {"role": "user", "content": "r1"},
        {"role": "user", "content": "r2"},
        USER,
    ]
    assert (h.converted_results, h.unanswered_calls) == (2, 0)


def test_a_reply_without_a_call_turns_all_results_into_the_users() -> None:
    h, messages = after_calls(results=1)
    assert messages[1:] == [
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "r0"},
        USER,
    ]
    assert h.converted_results == 1


def test_calls_beyond_the_results_are_answered_with_an_error_before_the_user_speaks() -> None:
    h, messages = after_calls(*(ToolCall(f"m{i}", "f", "{}") for i in range(3)), results=1)
    assert messages[2:] == [
        result("r0", "m0"),
        result(UNANSWERED, "m1"),
        result(UNANSWERED, "m2"),
        USER,
    ]
    assert (h.converted_results, h.unanswered_calls) == (0, 2)


def test_counts_are_of_the_last_turn_alone() -> None:
    h, _ = after_calls(ToolCall("m0", "f", "no"), results=3)
    turn = Turn((USER,))
    h.end(turn, reply("ok"))
    h.begin(turn)
    assert (h.converted_results, h.unanswered_calls, h.repaired_calls) == (0, 0, 0)


@pytest.mark.parametrize("arguments", ["{torn", "[1]", '"text"', "3", "null"])
def test_arguments_that_are_no_json_object_go_back_wrapped_in_one(arguments: str) -> None:
    h = history(Turn((USER,)))
    h.end(Turn((USER,)), reply("", (ToolCall("m0", "f", arguments), ToolCall("m1", "f", "{}"))))
    sent = [c["function"]["arguments"] for c in h.messages[0]["tool_calls"]]
    assert orjson.loads(sent[0]) == {"text": arguments}
    assert sent[1] == "{}"
    assert h.repaired_calls == 1


@pytest.mark.parametrize(
    ("came", "goes"),
    [
        ("reasoning", "reasoning"),
        ("reasoning_content", "reasoning_content"),
        ("reasoning_details", "reasoning"),
    ],
)
def test_reasoning_goes_back_under_the_name_it_came_under(came: str, goes: str) -> None:
    said = reply("so", reasoning="hm", reasoning_field=came)
    h = history(Turn((USER,)))
    h.end(Turn((USER,)), said)
    assert h.messages == [{"role": "assistant", "content": "so", goes: "hm"}]
    h = history(Turn((USER,)), keep_reasoning=False)
    h.end(Turn((USER,)), said)
    assert h.messages == [{"role": "assistant", "content": "so"}]
