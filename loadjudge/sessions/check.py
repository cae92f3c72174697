"""What is allowed in a session and still worth a warning before a run."""

from loadjudge.sessions.messages import calls_of, text_of
from loadjudge.sessions.model import Session


def session_warnings(session: Session) -> tuple[str, ...]:
    """One sentence a finding, each naming the session."""
    return tuple(
        f"session {session.id}: {finding}"
        for finding in (
            *_empty_prompts(session),
            *_undefined_calls(session),
            *_unanswered_calls(session),
        )
    )


def _empty_prompts(session: Session) -> list[str]:
    return [
        f"turn {number} sends an empty user message"
        for number, turn in enumerate(session.turns, 1)
        if any(m["role"] == "user" and not text_of(m).strip() for m in turn.messages)
    ]


def _undefined_calls(session: Session) -> list[str]:
    defined = {tool["function"]["name"] for tool in session.tools}
    called = (call for turn in session.turns for call in calls_of(turn.recorded))
    names = dict.fromkeys(call["function"]["name"] for call in called)
    return [f"{name} is called, and tools does not define it" for name in names.keys() - defined]


def _unanswered_calls(session: Session) -> list[str]:
    """Recorded calls with no result: a server may refuse them under ``--history recorded``."""
    findings = []
    for number, turn in enumerate(session.turns[:-1], 1):
        answered = any(m["role"] == "tool" for m in session.turns[number].messages)
        if calls_of(turn.recorded) and not answered:
            findings.append(f"the calls of turn {number} have no results")
    return findings
