"""The recorded file survives kills, torn lines and full disks."""

import errno
import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from loadjudge.errors import JudgeError
from loadjudge.proxy import sessionfile
from loadjudge.proxy.recorder import Recorder
from loadjudge.proxy.sessionfile import SessionFile
from loadjudge.sessions.read import read_sessions


def turn(n: int) -> dict[str, Any]:
    return {
        "messages": [
            {"role": "user", "content": f"u{n}"},
            {"role": "assistant", "content": f"a{n}"},
        ]
    }


def first(file: Path, **more: Any) -> dict[str, Any]:
    return {
        "file": str(file), "redact": [], "patterns": [], "idle_s": 60.0, "open_sessions": 100,
        "rotate_bytes": 1 << 30, **more,
    }  # fmt: skip


def said(*texts: str, **more: Any) -> tuple[dict[str, Any], bytes]:
    """The frame of an exchange: user and assistant messages in turn, the last the reply."""
    roles = ["user", "assistant"] * len(texts)
    messages = [{"role": r, "content": t} for r, t in zip(roles, texts, strict=False)]
    return {"reply": messages[-1]}, orjson.dumps({"messages": messages[:-1], **more})


def test_turns_of_a_session_become_one_line(tmp_path: Path) -> None:
    recorder = Recorder(first(tmp_path / "s.jsonl"))
    recorder.take(*said("a", "b"), 0.0)
    recorder.take(*said("x", "y"), 0.0)
    recorder.take(*said("a", "b", "c", "d"), 1.0)
    recorder.close()
    sessions = read_sessions(tmp_path / "s.jsonl")
    assert [len(s.turns) for s in sessions] == [2, 1]
    assert sessions[0].turns[1].recorded == {"role": "assistant", "content": "d"}
    assert not (tmp_path / "s.jsonl.journal").exists()


def test_what_people_wrote_is_for_their_own_eyes(tmp_path: Path) -> None:
    recorder = Recorder(first(tmp_path / "s.jsonl"))
    recorder.take(*said("a", "b"), 0.0)
    assert {oct(p.stat().st_mode & 0o777) for p in tmp_path.iterdir()} == {"0o600"}
    recorder.close()


def test_an_idle_session_is_written_and_what_follows_is_another(tmp_path: Path) -> None:
    recorder = Recorder(first(tmp_path / "s.jsonl", idle_s=10.0))
    recorder.take(*said("a", "b"), 0.0)
    recorder.sweep(9.0)
    assert recorder.sessions == 0
    recorder.sweep(11.0)
    assert recorder.sessions == 1
    recorder.take(*said("a", "b", "c", "d"), 12.0)
    recorder.close()
    assert [len(s.turns) for s in read_sessions(tmp_path / "s.jsonl")] == [1, 2]


def test_a_recorder_that_was_killed_loses_at_most_the_turn_in_flight(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    killed = Recorder(first(file))
    killed.take(*said("a", "b"), 0.0)
    killed.take(*said("a", "b", "c", "d"), 1.0)
    killed.take(*said("x", "y"), 1.0)
    for held in (killed._files._file, killed._files._journal):
        held.close()  # as the kernel does; nothing else of it is done
    with open(tmp_path / "s.jsonl.journal", "ab") as torn:
        torn.write(b'{"session":"z","messages":[{"ro')
    again = Recorder(first(file))
    assert again.recovered == 2
    again.close()
    assert [len(s.turns) for s in read_sessions(file)] == [2, 1]


def test_a_session_is_not_written_twice_where_the_kill_came_before_its_end_was_noted(
    tmp_path: Path,
) -> None:
    files = SessionFile(tmp_path / "s.jsonl", 1 << 30)
    files.turn("one", turn(1))
    files.turn("two", turn(2))
    files._file.append(orjson.dumps({"id": "one", **turn(1)}) + b"\n")
    files._file.close()
    files._journal.close()
    again = SessionFile(tmp_path / "s.jsonl", 1 << 30)
    assert again.open == ("two",)


def test_a_torn_line_is_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_bytes(b'{"id":"a","messages":[{"role":"user","content":"x"}]}\n{"id":"b","mess')
    recorder = Recorder(first(file))
    recorder.take(*said("a", "b"), 0.0)
    recorder.close()
    assert read_sessions(file)[0].id == "a"
    assert len(read_sessions(file)) == 2


def test_files_rotate_by_size_and_keep_their_suffix(tmp_path: Path) -> None:
    recorder = Recorder(first(tmp_path / "s.jsonl", rotate_bytes=300))
    for n in range(9):
        recorder.take(*said(f"question {n}", "an answer"), float(n))
    recorder.close()
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == ["s.1.jsonl", "s.2.jsonl", "s.jsonl"] or len(names) > 3
    assert all(p.stat().st_size <= 300 for p in tmp_path.iterdir())
    sessions = [s for p in tmp_path.iterdir() for s in read_sessions(p)]
    assert len(sessions) == len({s.id for s in sessions}) == 9


def test_a_journal_of_ended_sessions_shrinks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessionfile, "_COMPACT", 10_000)
    recorder = Recorder(first(tmp_path / "s.jsonl", open_sessions=3))
    for n in range(500):
        recorder.take(*said(f"question {n}", "x" * 100), float(n))
        recorder.sweep(float(n))
    assert (tmp_path / "s.jsonl.journal").stat().st_size < 12_000
    recorder.close()
    assert len(read_sessions(tmp_path / "s.jsonl")) == 500


def test_two_recorders_of_one_file_are_one_too_many(tmp_path: Path) -> None:
    held = SessionFile(tmp_path / "s.jsonl", 1 << 30)
    with pytest.raises(JudgeError, match="another process records"):
        SessionFile(tmp_path / "s.jsonl", 1 << 30)
    held.close()


class Full:
    """A disk that is full for a while."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        self._write = os.write
        monkeypatch.setattr(sessionfile.os, "write", self.write)

    def write(self, fd: int, data: bytes) -> int:
        if self.full:
            if len(data) > 1:
                return self._write(fd, data[:1])  # some of it still fits
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._write(fd, data)


def test_a_disk_that_is_full_for_a_while_costs_the_turns_of_that_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Full(monkeypatch)
    recorder = Recorder(first(tmp_path / "s.jsonl"))
    recorder.take(*said("a", "b"), 0.0)
    recorder.take(*said("x", "y"), 0.0)
    disk.full = True
    recorder.take(*said("a", "b", "c", "d"), 1.0)
    recorder.sweep(1.0)
    state = recorder.state()
    assert state["drops"] == {"the disk": 1}
    assert "no space left on device" in state["trouble"]
    disk.full = False
    recorder.sweep(2.0)
    assert recorder.state()["trouble"] is None
    recorder.take(*said("a", "b", "c", "d", "e", "f"), 3.0)  # brings its whole history
    recorder.close()
    sessions = read_sessions(tmp_path / "s.jsonl")
    assert sorted(len(s.turns) for s in sessions) == [1, 1, 3]


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (({"reply": {"role": "assistant", "content": "x"}}, b"{"), "not JSON"),
        (({"reply": {"role": "assistant", "content": "x"}}, b"[]"), "without messages"),
        (said("a", "b", n=2), "several choices"),
        (({"reply": {"role": "assistant", "content": "x"}, "coding": "br"}, b"{}"), "encoding br"),
    ],
)
def test_what_is_no_turn_is_dropped_and_counted(
    tmp_path: Path, frame: tuple[dict[str, Any], bytes], why: str
) -> None:
    recorder = Recorder(first(tmp_path / "s.jsonl"))
    recorder.take(*frame, 0.0)
    (reason,) = recorder.state()["drops"]
    assert why in reason
    recorder.close()


def test_a_session_that_can_not_be_played_is_left_out_and_counted(tmp_path: Path) -> None:
    recorder = Recorder(first(tmp_path / "s.jsonl"))
    picture = [{"type": "image_url", "image_url": {"url": "data:x"}}]
    body = orjson.dumps({"messages": [{"role": "user", "content": picture}]})
    recorder.take({"reply": {"role": "assistant", "content": "a cat"}}, body, 0.0)
    recorder.take(*said("a", "b"), 0.0)
    recorder.close()
    assert len(read_sessions(tmp_path / "s.jsonl")) == 1
    (reason,) = recorder.state()["drops"]
    assert "image_url" in reason


def test_user_messages_that_were_sent_together_make_no_turn_between_them(tmp_path: Path) -> None:
    recorder = Recorder(first(tmp_path / "s.jsonl"))
    messages = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    reply = {"role": "assistant", "content": "c"}
    recorder.take({"reply": reply}, orjson.dumps({"messages": messages}), 0.0)
    on = [*messages, reply, {"role": "user", "content": "d"}]
    recorder.take(
        {"reply": {"role": "assistant", "content": "e"}}, orjson.dumps({"messages": on}), 1.0
    )
    recorder.close()
    (session,) = read_sessions(tmp_path / "s.jsonl")
    assert [t.messages[0]["content"] for t in session.turns] == ["a\n\nb", "d"]
    assert all(t.recorded for t in session.turns)
    assert "joined to one" in session.notes[0]


def test_what_is_redacted_is_nowhere_on_the_disk(tmp_path: Path) -> None:
    recorder = Recorder(first(tmp_path / "s.jsonl", redact=["all"], patterns=["secret"]))
    recorder.take(*said("I am me@x.example", "a secret"), 0.0)
    for path in tmp_path.iterdir():  # the journal as well
        assert b"me@x" not in path.read_bytes()
        assert b"secret" not in path.read_bytes()
    # What goes on is still known to: it is compared as it was said.
    recorder.take(*said("I am me@x.example", "a secret", "and?", "so"), 1.0)
    recorder.close()
    (session,) = read_sessions(tmp_path / "s.jsonl")
    assert session.turns[0].messages == ({"role": "user", "content": "I am [redacted: email]"},)
    assert len(session.turns) == 2
    assert recorder.state()["redacted"] == 2
