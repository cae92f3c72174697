"""A hidden split: new sessions that follow from a private seed.

Whoever has this repository knows how the sessions are made and still cannot know or precompute
them without the seed. They are of the kinds of the shipped development split. Only a commitment
to the seed, its SHA-256, is written into them, so that a split can be shown later to be the one
that was announced; as a short seed could be guessed from it, seeds should be long and random.
"""

import hashlib
import tempfile
from pathlib import Path

from loadjudge.errors import JudgeError, Status
from loadjudge.sessions.generate.agents import SCENARIOS
from loadjudge.sessions.generate.chat import chat_messages, plans
from loadjudge.sessions.generate.desk import Desk
from loadjudge.sessions.generate.draw import Draw
from loadjudge.sessions.generate.follow_up import follow_up
from loadjudge.sessions.generate.workspace import DEFINITIONS, Workspace
from loadjudge.sessions.model import Kind, Session
from loadjudge.sessions.native import build_session

# Raised with every change that gives other sessions for the same seed.
VERSION = 1
SHORT_SEED = 16  # characters; below it, the commitment gives the seed away to guessing


def commitment(seed: str) -> str:
    """The SHA-256 of the seed, in hex: what may be published before the split is."""
    return hashlib.sha256(seed.encode()).hexdigest()


def generate_sessions(seed: str, num_sessions: int, kind: str = "both") -> list[Session]:
    """``num_sessions`` sessions; ``both`` alternates chat and agent.

    The same seed gives the same sessions on any machine, and session *i* does not depend on how
    many are asked for. Raises JudgeError for an empty seed or an unknown kind.
    """
    kinds: dict[str, tuple[Kind, ...]] = {
        "chat": ("chat",),
        "agent": ("agent",),
        "both": ("chat", "agent"),
    }
    if kind not in kinds:
        raise JudgeError(f"there is no kind {kind!r}; it is chat, agent or both.", Status.USAGE)
    if not seed:
        raise JudgeError("the seed is empty; give a long random one.", Status.USAGE)
    if num_sessions < 1:
        raise JudgeError("the number of sessions must be 1 or more.", Status.USAGE)
    wanted = kinds[kind]
    return [
        _session(seed, wanted[index % len(wanted)], index // len(wanted))
        for index in range(num_sessions)
    ]


def _session(seed: str, kind: Kind, index: int) -> Session:
    draw = Draw(seed, f"loadjudge sessions {VERSION} {kind} {index}")
    make = _chat if kind == "chat" else _agent
    note = f"generated, version {VERSION}, from the private seed of SHA-256 {commitment(seed)}"
    # The tag keeps ids of different seeds apart when files are joined; it says nothing of either.
    tag = f"{draw.below(1 << 32):08x}"
    return make(draw, f"{kind}-{index:04}-{tag}", _nth(seed, kind, index), note)


def _nth(seed: str, kind: Kind, index: int) -> int:
    """Which plan session ``index`` follows: all plans in turn, in an order of the seed's own.

    Every plan comes once before any comes twice, so a small split has the spread of a large one.
    """
    count = len(plans()) if kind == "chat" else len(SCENARIOS)
    lap, place = divmod(index, count)
    return Draw(seed, f"loadjudge order {VERSION} {kind} {lap}").sample(range(count), count)[place]


def _chat(draw: Draw, id: str, nth: int, note: str) -> Session:
    messages = chat_messages(draw, plans()[nth])
    return build_session(id, messages, id=id, kind="chat", notes=(note,))


def _agent(draw: Draw, id: str, nth: int, note: str) -> Session:
    with tempfile.TemporaryDirectory(prefix="loadjudge-") as folder:
        workspace = Workspace(Path(folder))
        try:
            desk = Desk(draw, workspace)
            SCENARIOS[nth](desk)
            follow_up(desk)
        finally:
            workspace.close()
    tools = [DEFINITIONS[name] for name in desk.tools]
    return build_session(id, desk.messages, id=id, tools=tools, kind="agent", notes=(note,))
