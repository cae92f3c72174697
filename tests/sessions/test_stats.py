"""Statistics and warnings of sessions."""

import pytest

from loadjudge.sessions.check import session_warnings
from loadjudge.sessions.document import Row
from loadjudge.sessions.model import Session
from loadjudge.sessions.native import session_from_row
from loadjudge.sessions.stats import Spread, session_stats, spread


def session(*messages: dict[str, object], **record: object) -> Session:
    return session_from_row(Row("f, line 1", 1, {"messages": list(messages), **record}))


USER = {"role": "user", "content": "12345678"}
CALL = {
    "role": "assistant",
    "content": "ab",
    "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "ls", "arguments": '{"p":1}'}}
    ],
}
RESULT = {"role": "tool", "tool_call_id": "a", "content": "xyz", "delay_seconds": 1.5}


def test_spread_takes_values_by_nearest_rank() -> None:
    assert spread([5]) == Spread(5, 5, 5, 5)
    assert spread([4, 1, 3, 2]) == Spread(1, 2, 4, 4)
    assert spread(range(1, 11)) == Spread(1, 5, 9, 10)


def test_text_is_counted_by_who_wrote_it() -> None:
    found = session_stats([session(USER, CALL, RESULT, id="long"), session(USER, id="short")])
    assert (found.sessions, found.turns) == (2, 3)
    assert found.kinds == {"agent": 1, "chat": 1}
    assert (found.sessions_with_tools, found.tools) == (1, {"ls": 1})
    assert (found.user.messages, found.user.characters, found.user.tokens_estimate) == (2, 16, 4)
    assert (found.tool.characters, found.recorded.characters) == (3, 9)
    assert (found.scripted_wait_s, found.longest_id) == (1.5, "long")
    assert found.characters_per_session == Spread(8, 8, 20, 20)


def test_no_sessions_have_no_statistics() -> None:
    with pytest.raises(ValueError, match="at least one"):
        session_stats([])


def test_warnings_name_the_session_and_the_turn() -> None:
    odd = session({"role": "user", "content": " "}, CALL, USER, id="s", tools=[])
    assert session_warnings(odd) == (
        "session s: turn 1 sends an empty user message",
        "session s: the calls of turn 1 have no results",
    )
    tools = [{"type": "function", "function": {"name": "cat"}}]
    assert session_warnings(session(USER, CALL, RESULT, id="s", tools=tools)) == (
        "session s: ls is called, and tools does not define it",
    )
