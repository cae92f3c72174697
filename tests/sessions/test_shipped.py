"""The split that ships, and the script that joins it."""

import importlib.util
from pathlib import Path
from types import ModuleType

import orjson
import pytest

from loadjudge.errors import JudgeError, Status
from loadjudge.sessions import shipped

SCRIPT = Path(__file__).resolve().parents[2] / "sessions" / "build_chat.py"


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


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_chat", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "HERE", tmp_path)
    monkeypatch.setattr(module, "OUTPUT", tmp_path / "chat.jsonl")
    (tmp_path / "src").mkdir()
    return module


def test_sources_are_joined_in_order_and_checked(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "src" / "chat_b.jsonl").write_bytes(line("b1"))
    (tmp_path / "src" / "chat_a.jsonl").write_bytes(line("a1") + b"\n" + line("a2").strip())
    assert script.main(["--check"]) == 1
    assert script.main([]) == 0
    assert (tmp_path / "chat.jsonl").read_bytes() == line("a1") + line("a2") + line("b1")
    assert script.main(["--check"]) == 0
    assert "up to date" in capsys.readouterr().out


def test_ids_must_be_unique_over_the_sources(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.main([]) == 3
    for name in ("chat_a.jsonl", "chat_b.jsonl"):
        (tmp_path / "src" / name).write_bytes(line("same"))
    assert script.main([]) == 3
    assert "'same' is already" in capsys.readouterr().err
    assert not (tmp_path / "chat.jsonl").exists()
