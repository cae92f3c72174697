"""The real files beside the repository: counts that were taken from the data, and round trips."""

from collections.abc import Callable
from pathlib import Path

import pytest

from loadjudge.sessions.model import Session
from loadjudge.sessions.read import parse_sessions, read_session_file, read_sessions
from loadjudge.sessions.write import write_sessions

Find = Callable[[str], Path]

FILES = [
    ("mt_bench.spec_bench.jsonl", "spec_bench", 60, 120),
    ("spec_bench.jsonl", "spec_bench", 80, 97),  # 63 of one turn, 17 of two
    ("fastchat.sharegpt.json", "sharegpt", 150, 300),  # 50 each of 1, 2 and 3 exchanges
    ("tau_bench_airline.openai.jsonl", "openai", 20, 265),  # 245 replies, 20 unanswered ends
    ("agentic_coding.mlcommons.jsonl", "mlcommons", 2, 116),
    ("swe_agent_marshmallow.traj", "swe_agent", 1, 12),  # 11 replies and the last result
]


@pytest.mark.parametrize(("name", "format", "sessions", "turns"), FILES)
def test_counts_and_round_trip(
    name: str, format: str, sessions: int, turns: int, shared_file: Find, tmp_path: Path
) -> None:
    found = read_session_file(shared_file(name))
    assert (found.format, found.warnings) == (format, ())
    assert (len(found.sessions), sum(len(s.turns) for s in found.sessions)) == (sessions, turns)
    assert read_sessions(shared_file(name), format) == list(found.sessions)
    for output in ("out.jsonl", "out.jsonl.gz"):
        write_sessions(tmp_path / output, found.sessions)
        again = read_session_file(tmp_path / output)
        assert (again.format, again.sessions) == ("openai", found.sessions)


def replies(session: Session) -> int:
    return sum(turn.recorded is not None for turn in session.turns)


def test_mt_bench(shared_file: Find) -> None:
    found = read_sessions(shared_file("mt_bench.spec_bench.jsonl"))
    assert (found[0].id, found[-1].id) == ("81", "140")
    assert found[0].turns[1].messages[0]["content"].startswith("Rewrite your previous response")
    assert {session.kind for session in found} == {"chat"}


def test_fastchat(shared_file: Find) -> None:
    found = read_sessions(shared_file("fastchat.sharegpt.json"))
    assert [len(session.turns) for session in found[:3]] == [2, 1, 3]
    assert found[0].turns[0].messages == ({"role": "user", "content": "Who are you?"},)
    assert found[0].turns[1].recorded == {"role": "assistant", "content": "You too!"}


def test_tau_bench(shared_file: Find) -> None:
    found = read_sessions(shared_file("tau_bench_airline.openai.jsonl"))
    first = found[0]
    assert first.id == "airline-0"
    assert [m["role"] for m in first.turns[0].messages] == ["system", "user"]
    assert first.turns[-1].messages[0]["content"].endswith("###STOP###")
    assert sum(map(replies, found)) == 245
    assert first.notes == ("tool definitions are derived from the recorded calls",)
    tools = {tool["function"]["name"]: tool["function"]["parameters"] for tool in first.tools}
    assert tools["get_user_details"]["properties"] == {"user_id": {"type": "string"}}
    assert tools["book_reservation"]["properties"]["flights"]["items"] == {"type": "object"}
    # Two customers only talk: no calls, so no tools.
    assert [session.kind for session in found].count("chat") == 2


def test_agentic_coding(shared_file: Find) -> None:
    found = read_sessions(shared_file("agentic_coding.mlcommons.jsonl"))
    assert [session.id for session in found] == ["django__django-16899", "sympy__sympy-12096"]
    assert [replies(session) for session in found] == [58, 58]
    first = found[0]
    assert [tool["function"]["name"] for tool in first.tools] == ["bash"]
    assert first.notes == ()
    assert first.turns[1].wait_s == 0.36833
    assert first.turns[1].messages[0]["tool_call_id"] == "functions.bash:0"
    assert first.turns[0].recorded is not None
    assert first.turns[0].recorded["reasoning_content"].startswith("We need to modify Django")


def test_swe_agent(shared_file: Find) -> None:
    (found,) = read_sessions(shared_file("swe_agent_marshmallow.traj"))
    assert (found.id, found.kind, replies(found)) == ("swe_agent_marshmallow", "agent", 11)
    assert [tool["function"]["name"] for tool in found.tools] == [
        "create",
        "edit",
        "bash",
        "find_file",
        "open",
        "submit",
    ]
    keys = {key for turn in found.turns for message in turn.messages for key in message}
    assert keys == {"role", "content", "tool_call_id"}


@pytest.mark.parametrize("cut", [0.3, 0.7])
def test_a_file_cut_short_is_refused_in_one_sentence(cut: float, shared_file: Find) -> None:
    from loadjudge.errors import JudgeError

    for name, *_ in FILES:
        data = shared_file(name).read_bytes()
        with pytest.raises(JudgeError, match=r"line \d+") as caught:
            parse_sessions(name, data[: int(len(data) * cut)])
        assert "\n" not in caught.value.sentence
