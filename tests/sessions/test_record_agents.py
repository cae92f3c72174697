"""The recorder of agent sessions, and the sessions it has recorded."""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SESSIONS = Path(__file__).resolve().parents[2] / "sessions"
SMALL = "agent-01-access-log"  # needs only awk, grep and sort


@pytest.fixture(scope="module")
def recorder() -> ModuleType:
    """The module sessions/record_agents.py."""
    sys.path.insert(0, str(SESSIONS))
    try:
        return importlib.import_module("record_agents")
    finally:
        sys.path.remove(str(SESSIONS))


@pytest.fixture(scope="module")
def recorded() -> list[dict[str, Any]]:
    """All sessions of agent.jsonl."""
    with (SESSIONS / "agent.jsonl").open(encoding="utf-8") as file:
        return [json.loads(text) for text in file]


def scenario(**changes: Any) -> dict[str, Any]:
    """A scenario with six assistant turns that list files."""
    steps: list[dict[str, Any]] = [{"user": "What is here?"}]
    steps += [{"say": "Look.", "call": {"bash": "ls"}} for _ in range(5)]
    base = {
        "id": "agent-test",
        "category": "test",
        "tools": ["bash", "read_file"],
        "system": "You look around.",
        "files": {"a.txt": "one\ntwo\n"},
        "step": [*steps, {"say": "One file."}],
    }
    return {**base, **changes}


def replay(recorder: ModuleType, call: dict[str, Any], tools: list[str]) -> str:
    """The result of one call in a fresh workspace, as part of the smallest possible session."""
    steps = [{"user": "?"}, *({"say": "Run.", "call": call} for _ in range(5)), {"say": "Done."}]
    session = recorder.record(scenario(tools=tools, step=steps))
    return str(session["messages"][3]["content"])


def test_recording_again_gives_the_recorded_bytes(recorder: ModuleType) -> None:
    lines = (SESSIONS / "agent.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    wanted = next(text for text in lines if json.loads(text)["id"] == SMALL)
    again = recorder.record(recorder.load_scenario(SESSIONS / "agents" / f"{SMALL}.toml"))
    assert recorder.line(again) == wanted


def test_every_scenario_is_recorded(recorded: list[dict[str, Any]]) -> None:
    names = sorted(path.stem for path in (SESSIONS / "agents").glob("*.toml"))
    assert [session["id"] for session in recorded] == names
    assert len(names) >= 26


def test_tool_results_answer_the_message_before(recorded: list[dict[str, Any]]) -> None:
    for session in recorded:
        open_calls: list[str] = []
        names = {tool["function"]["name"] for tool in session["tools"]}
        for message in session["messages"]:
            if message["role"] == "tool":
                assert message["tool_call_id"] == open_calls.pop(0)
                assert message["content"]
                continue
            assert not open_calls, session["id"]
            for call in message.get("tool_calls", []):
                assert call["function"]["name"] in names
                assert isinstance(json.loads(call["function"]["arguments"]), dict)
                open_calls.append(call["id"])
        assert session["messages"][-1]["role"] == "assistant"
        assert not open_calls


def test_turns_and_sizes(recorder: ModuleType, recorded: list[dict[str, Any]]) -> None:
    parallel = followed = 0
    for session in recorded:
        roles = [message["role"] for message in session["messages"]]
        assert roles[:2] == ["system", "user"]
        assert 6 <= roles.count("assistant") <= 30
        followed += roles.count("user") > 1
        parallel += any(len(m.get("tool_calls", [])) > 1 for m in session["messages"])
        for message in session["messages"]:
            if message["role"] == "tool":
                assert len(message["content"]) <= 6_000 + 60  # the note of what was left out
    assert parallel >= 4
    assert followed >= 8
    assert 250_000 <= (SESSIONS / "agent.jsonl").stat().st_size <= 700_000


def test_recorded_text_names_no_place_of_this_machine(recorded: list[dict[str, Any]]) -> None:
    text = json.dumps(recorded)
    assert str(SESSIONS.parent) not in text
    assert sys.prefix not in text
    assert "/tmp/agent-" not in text
    assert "[stopped after" not in text  # a call that was too slow when it was recorded


def test_workspace_and_processes_are_gone(recorder: ModuleType) -> None:
    with recorder.open_workspace(scenario()) as workspace:
        root = workspace.root
        assert (workspace.work / "a.txt").exists()
        recorder.call(workspace, "bash", {"command": "sleep 60 & echo $! > pid"})
        child = int((workspace.work / "pid").read_text())
        os.kill(child, 0)  # it lives
    assert not root.exists()
    deadline = time.monotonic() + 2
    while process_runs(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not process_runs(child)


def process_runs(process: int) -> bool:
    """Whether a process is there and not just waiting to be reaped."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_outputs_are_normalised_and_cut(recorder: ModuleType) -> None:
    text = replay(recorder, {"bash": "pwd; echo took in 3.21s; exit 3"}, ["bash"])
    assert text == "/workspace\ntook in 0.10s\n[exit code 3]"
    text = replay(recorder, {"bash": "yes | head -5000"}, ["bash"])
    assert text.endswith("\n[... 3999 characters left out]")


def test_tools_refuse_what_they_must(recorder: ModuleType) -> None:
    refused = {
        "read_file": {"path": "../home"},
        "edit_file": {"path": "a.txt", "old": "three", "new": "3"},
        "http_get": {"url": "http://example.org/"},
        "search": {"pattern": "("},
    }
    for name, arguments in refused.items():
        assert replay(recorder, {name: arguments}, [name]).startswith("error: ")


def test_bad_scenarios_are_refused(recorder: ModuleType) -> None:
    with pytest.raises(recorder.ScenarioError, match="1 assistant turns"):
        recorder.record(scenario(step=[{"user": "?"}, {"say": "!"}]))
    with pytest.raises(recorder.ScenarioError, match="unknown tools"):
        recorder.record(scenario(tools=["telephone"]))
    with pytest.raises(recorder.ScenarioError, match="setup failed"):
        recorder.record(scenario(setup="false"))
    with pytest.raises(recorder.ScenarioError, match="not among its tools"):
        recorder.record(scenario(tools=["read_file"]))


def test_check_finds_a_changed_result(
    recorder: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = "".join('[[step]]\nsay = "Look."\ncall.bash = "ls"\n' for _ in range(5))
    head = 'category = "test"\ntools = ["bash"]\nsystem = "s"\n[files]\n"a.txt" = "x"\n'
    text = head + '[[step]]\nuser = "?"\n' + steps + '[[step]]\nsay = "Done."\n'
    (tmp_path / "one.toml").write_text(text)
    arguments = ["--scenarios", str(tmp_path), "--output", str(tmp_path / "out.jsonl")]
    assert recorder.main(arguments) == 0
    assert recorder.main([*arguments, "--check"]) == 0
    (tmp_path / "one.toml").write_text(text.replace("a.txt", "b.txt"))
    assert recorder.main([*arguments, "--check"]) == 1
    assert "one call_0001" in capsys.readouterr().out
    assert recorder.main([*arguments, "--only", "two"]) == 2
