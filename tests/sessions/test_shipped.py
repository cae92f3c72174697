"""The split that ships, and the script that joins it."""

from pathlib import Path

import orjson
import pytest

from loadjudge.errors import JudgeError, Status
from loadjudge.sessions import shipped


def line(id: str, **record: object) -> bytes:
    messages = [{"role": "user", "content": id}]
    return orjson.dumps({"id": id, "messages": messages, **record}) + b"\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(shipped, "data_root", lambda: tmp_path)
    folder = tmp_path / "sessions"
    folder.mkdir()
    (folder / "chat.jsonl").write_bytes(line("c1") + line("c2"))
    (folder / "agent.jsonl").write_bytes(line("a1", kind="agent"))
    return folder


def test_a_split_is_one_kind_or_all(root: Path) -> None:
    assert [session.id for session in shipped.load_split("chat")] == ["c1", "c2"]
    assert [session.id for session in shipped.load_split("agent")] == ["a1"]
    assert [session.id for session in shipped.load_split()] == ["c1", "c2", "a1"]
    with pytest.raises(JudgeError, match="chat, agent or all") as caught:
        shipped.load_split("game")  # type: ignore[arg-type]
    assert caught.value.status is Status.USAGE


def test_texts_are_checked(root: Path) -> None:
    text = {"id": "t", "kind": "prose", "language": "en", "text": "Once."}
    (root / "texts.jsonl").write_bytes(orjson.dumps(text))
    assert shipped.load_texts() == [shipped.Text("t", "prose", "en", "Once.")]
    (root / "texts.jsonl").write_bytes(orjson.dumps({**text, "text": None}))
    with pytest.raises(JudgeError, match="line 1: a text needs the strings"):
        shipped.load_texts()
