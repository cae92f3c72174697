"""The hidden split: repeatable, valid, fresh by seed."""

import os
import re
import subprocess
import sys
import time
from collections import Counter

import pytest

from loadjudge.errors import JudgeError, Status
from loadjudge.sessions.check import session_warnings
from loadjudge.sessions.generate import commitment, generate_sessions
from loadjudge.sessions.generate.agents import SCENARIOS
from loadjudge.sessions.generate.chat import Slots, plans
from loadjudge.sessions.generate.draw import Draw
from loadjudge.sessions.messages import text_of
from loadjudge.sessions.model import Session
from loadjudge.sessions.native import session_to_line
from loadjudge.sessions.read import parse_sessions

SEED = "a seed for tests, not a secret"


def written(sessions: list[Session]) -> bytes:
    return b"".join(map(session_to_line, sessions))


def user_texts(sessions: list[Session]) -> list[str]:
    return [
        text_of(message)
        for session in sessions
        for turn in session.turns
        for message in turn.messages
        if message["role"] == "user"
    ]


@pytest.fixture(scope="module")
def large() -> tuple[list[Session], float]:
    began = time.perf_counter()
    sessions = generate_sessions(SEED, 200)
    return sessions, time.perf_counter() - began


def test_two_hundred_sessions_take_less_than_ten_seconds(
    large: tuple[list[Session], float],
) -> None:
    assert large[1] < 10


def test_generated_sessions_pass_check_and_re_read_equal(
    large: tuple[list[Session], float],
) -> None:
    sessions, _ = large
    found = parse_sessions("hidden.jsonl", written(sessions), "openai")
    assert list(found.sessions) == sessions
    assert found.warnings == ()
    assert [warning for session in sessions for warning in session_warnings(session)] == []
    assert Counter(session.kind for session in sessions) == {"chat": 100, "agent": 100}


def test_chats_have_three_to_eight_turns_and_no_recorded_replies(
    large: tuple[list[Session], float],
) -> None:
    chats = [session for session in large[0] if session.kind == "chat"]
    lengths = {len(session.turns) for session in chats}
    assert lengths <= set(range(3, 9))
    assert len(lengths) >= 5
    assert all(turn.recorded is None for session in chats for turn in session.turns)


def test_agents_call_tools_whose_results_are_real(large: tuple[list[Session], float]) -> None:
    agents = [session for session in large[0] if session.kind == "agent"]
    results = [
        text_of(message)
        for session in agents
        for turn in session.turns
        for message in turn.messages
        if message["role"] == "tool"
    ]
    assert all(5 <= len(session.turns) <= 30 for session in agents)
    assert len(results) > 400
    broken = [
        text for text in results if re.search(r"(^error:|^\w+Error: |passed, [1-9] failed$)", text)
    ]
    # The checks of a bug hunt fail before the fix, and only those.
    assert all(re.fullmatch(r"\d passed, [1-9] failed", text.splitlines()[-1]) for text in broken)
    mended = sum(bool(re.fullmatch(r"\d passed, 0 failed", text)) for text in results)
    assert mended == len(broken) > 5


def test_no_slot_is_left_and_no_text_names_the_machine(
    large: tuple[list[Session], float],
) -> None:
    data = written(large[0]).decode()
    assert "«" not in data
    assert "»" not in data
    assert "loadjudge-" not in data
    assert SEED not in data
    assert commitment(SEED) in data


def test_openings_differ_within_a_seed_and_between_seeds(
    large: tuple[list[Session], float],
) -> None:
    openings = [user_texts([session])[0] for session in large[0] if session.kind == "chat"]
    assert len(set(openings)) >= 97
    others = generate_sessions(SEED + "!", 50, "chat")
    shared = set(openings) & {user_texts([session])[0] for session in others}
    assert len(shared) <= 2
    assert not {session.id for session in others} & {session.id for session in large[0]}


def test_the_same_seed_gives_the_same_bytes_in_another_process() -> None:
    code = (
        "import sys; from loadjudge.sessions.generate import generate_sessions as g; "
        "from loadjudge.sessions.native import session_to_line as w; "
        f"sys.stdout.buffer.write(b''.join(map(w, g({SEED!r}, 16))))"
    )
    env = {**os.environ, "PYTHONHASHSEED": "77", "TZ": "Asia/Tokyo", "LC_ALL": "C"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True)
    assert done.stdout == written(generate_sessions(SEED, 16))


def test_a_session_does_not_depend_on_how_many_are_asked_for() -> None:
    assert generate_sessions(SEED, 5, "chat") == generate_sessions(SEED, 50, "chat")[:5]


def test_every_plan_comes_before_any_comes_twice() -> None:
    assert len(plans()) >= 40
    assert len({plan.id for plan in plans()}) == len(plans())
    assert len({plan.category for plan in plans()}) == 8
    lap = generate_sessions(SEED, len(SCENARIOS), "agent")
    assert len({text_of(session.turns[0].messages[-1]) for session in lap}) == len(SCENARIOS)
    assert len({tuple(tool["function"]["name"] for tool in s.tools) for s in lap}) >= 4


def test_every_wording_of_every_plan_can_be_filled() -> None:
    for plan in plans():
        for opening in plan.open:
            slots = Slots(Draw(SEED, plan.id))
            # A session always has its opening, so later wordings may build on its slots.
            filled = [slots.fill(text) for text in (*plan.system, opening)]
            filled += [slots.fill(text) for step in plan.then for text in step]
            assert all(text.strip() and "«" not in text for text in filled)


def test_draws_are_pinned() -> None:
    draw = Draw("secret", "label")
    assert [draw.below(100) for _ in range(6)] == [98, 61, 13, 80, 17, 32]
    assert sorted(draw.sample(range(9), 9)) == list(range(9))
    assert draw.subset("abcdef", 6) == list("abcdef")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [((SEED, 1, "game"), "no kind 'game'"), (("", 1), "seed is empty"), ((SEED, 0), "1 or more")],
)
def test_wrong_use_is_refused(arguments: tuple[str, int, str], sentence: str) -> None:
    with pytest.raises(JudgeError, match=sentence) as caught:
        generate_sessions(*arguments)
    assert caught.value.status is Status.USAGE
