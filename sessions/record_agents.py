"""Record the agent sessions: run every scripted tool call for real, write OpenAI messages.

    python sessions/record_agents.py [--only ID ...] [--output FILE] [--check]

A scenario is a TOML file in ``sessions/agents/``; its name without ".toml" is the session's id.
What the assistant says and calls is scripted there; what the tools answer is recorded by running
the calls, in order, in a fresh workspace that is removed afterwards.  To record more sessions, add
a file (``--scenarios DIR`` reads another folder) and run the command::

    category = "debugging"
    tools = ["bash", "read_file", "run_tests"]   # names from agents/tools.py
    system = "You are ..."
    database = "shop.db"                         # optional: the file that the sql tool opens
    setup = "python make_db.py && rm make_db.py" # optional: shell script run before the session

    [files]                                      # the workspace at the start
    "src/app.py" = '''...'''

    [[step]]                                     # a user turn
    user = "Why does ... fail?"

    [[step]]                                     # an assistant turn with one tool call
    say = "I will look at the source."
    call.read_file = {path = "src/app.py", start = 1, end = 40}

    [[step]]                                     # two calls in one turn; a plain string stands
    say = "Both at once."                        # for the tool's first parameter
    calls = [{bash = "ls"}, {read_file = "src/app.py"}]

    [[step]]                                     # an assistant turn without a call: the answer
    say = "The cause is ..."

Outputs repeat from run to run: see ``environment`` and ``normalise`` in agents/tools.py for what is
fixed (locale, time zone, git dates, hash seed) and replaced (the workspace's path by /workspace,
the elapsed "in 1.23s" by "in 0.10s", object addresses).  A scenario must not print the time, a
process id or file dates.  Another version of gcc, git, pytest or Python can still change a line;
``--check`` records again without writing and names the calls whose results differ.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from agents.tools import FIXED_DATE, TOOLS, Workspace, call, execute

HERE = Path(__file__).resolve().parent
SCENARIOS = HERE / "agents"
OUTPUT = HERE / "agent.jsonl"
TURNS = (6, 30)  # fewest and most assistant turns in a session
FILE_TIME_S = datetime.fromisoformat(FIXED_DATE).timestamp()

Json = dict[str, Any]


class ScenarioError(Exception):
    """A scenario that cannot be recorded, with the reason."""


def load_scenario(path: Path) -> Json:
    """Read a scenario file; its name gives the id."""
    try:
        scenario = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{path.name}: {error}") from error
    missing = {"category", "tools", "system", "step"} - scenario.keys()
    if missing:
        raise ScenarioError(f"{path.name}: no {', '.join(sorted(missing))}")
    return {"id": path.stem, **scenario}


@contextlib.contextmanager
def open_workspace(scenario: Json) -> Iterator[Workspace]:
    """The scenario's files in a temporary folder; its processes and files are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="agent-") as folder:
        workspace = Workspace(Path(folder).resolve(), scenario.get("database", "data.db"))
        for name in ("workspace", "home", "tmp"):
            (workspace.root / name).mkdir()
        try:
            for name, content in scenario.get("files", {}).items():
                target = workspace.path(name)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(content, encoding="utf-8")
            run_setup(scenario, workspace)
            yield workspace
        finally:
            workspace.close()


def run_setup(scenario: Json, workspace: Workspace) -> None:
    """Run the scenario's setup script, then give every file the same fixed date."""
    if "setup" in scenario:
        # -e, and a word at the end, so that a failing script is noticed.
        text = execute(workspace, ["bash", "-e", "-c", scenario["setup"] + "\necho setup-done"])
        if not text.endswith("setup-done"):
            raise ScenarioError(f"{scenario['id']}: setup failed:\n{text}")
    for path in workspace.work.rglob("*"):
        if ".git" not in path.parts:
            os.utime(path, (FILE_TIME_S, FILE_TIME_S), follow_symlinks=False)


def step_calls(step: Json) -> list[tuple[str, Json]]:
    """The calls of a step as (tool, arguments); a plain string is the first parameter."""
    tables = step.get("calls") or [{name: value} for name, value in step.get("call", {}).items()]
    calls = [item for table in tables for item in table.items()]
    return [
        (name, value if isinstance(value, dict) else {next(iter(TOOLS[name].parameters)): value})
        for name, value in calls
    ]


def record(scenario: Json) -> Json:
    """Play a scenario in a fresh workspace: the session, with the real tool results."""
    unknown = [name for name in scenario["tools"] if name not in TOOLS]
    if unknown:
        raise ScenarioError(f"{scenario['id']}: unknown tools {unknown}")
    with open_workspace(scenario) as workspace:
        messages = play(scenario, workspace)
    turns = sum(message["role"] == "assistant" for message in messages)
    if not TURNS[0] <= turns <= TURNS[1]:
        raise ScenarioError(f"{scenario['id']}: {turns} assistant turns, not {TURNS}")
    return {
        "id": scenario["id"],
        "kind": "agent",
        "category": scenario["category"],
        "tools": [TOOLS[name].definition() for name in scenario["tools"]],
        "messages": messages,
    }


def play(scenario: Json, workspace: Workspace) -> list[Json]:
    """The messages of a scenario, its calls run one after the other."""
    messages: list[Json] = [{"role": "system", "content": scenario["system"].strip()}]
    count = 0
    for step in scenario["step"]:
        if "user" in step:
            messages.append({"role": "user", "content": step["user"].strip()})
            continue
        calls = step_calls(step)
        turn: Json = {"role": "assistant", "content": step["say"].strip()}
        results: list[Json] = []
        for name, arguments in calls:
            if name not in scenario["tools"]:
                raise ScenarioError(f"{scenario['id']}: {name} is not among its tools")
            count += 1
            key = f"call_{count:04}"
            function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
            turn.setdefault("tool_calls", []).append(
                {"id": key, "type": "function", "function": function}
            )
            content = call(workspace, name, arguments)
            results.append({"role": "tool", "tool_call_id": key, "content": content})
        messages += [turn, *results]
    return messages


def line(session: Json) -> str:
    """A session as a line of the output file."""
    return json.dumps(session, ensure_ascii=False) + "\n"


def read_sessions(path: Path) -> dict[str, Json]:
    """The sessions of a file by id; none when there is no such file."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8") as file:
        return {session["id"]: session for session in map(json.loads, file)}


def tool_results(session: Json) -> dict[str, str]:
    """The tool results of a session by call id."""
    return {m["tool_call_id"]: m["content"] for m in session["messages"] if m["role"] == "tool"}


def differences(recorded: Json | None, again: Json) -> list[str]:
    """What differs between a session in the file and the same scenario recorded again."""
    name = again["id"]
    if recorded is None:
        return [f"{name}: not in the file"]
    if recorded == again:
        return []
    old, new = tool_results(recorded), tool_results(again)
    found = [
        f"{name} {key}:\n  file:  {old.get(key)!r}\n  again: {new.get(key)!r}"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    ]
    return found or [f"{name}: the script changed, the tool results are the same"]


def select(folder: Path, only: list[str] | None) -> list[Json]:
    """The scenarios of a folder in the order of their ids, or those asked for."""
    scenarios = [load_scenario(path) for path in sorted(folder.glob("*.toml"))]
    unknown = set(only or []) - {scenario["id"] for scenario in scenarios}
    if unknown:
        raise ScenarioError(f"no scenario {', '.join(sorted(unknown))} in {folder}")
    return [scenario for scenario in scenarios if not only or scenario["id"] in only]


def check(scenarios: list[Json], recorded: dict[str, Json], complete: bool) -> int:
    """Record again and print what differs from the file; the number of differences."""
    found = [text for s in scenarios for text in differences(recorded.get(s["id"]), record(s))]
    if complete:
        gone = sorted(recorded.keys() - {scenario["id"] for scenario in scenarios})
        found += [f"{name}: in the file, but there is no such scenario" for name in gone]
    for text in found:
        print(text)
    print(f"{len(scenarios)} scenarios recorded again, {len(found)} differences")
    return len(found)


def write(scenarios: list[Json], recorded: dict[str, Json], complete: bool, output: Path) -> None:
    """Record the scenarios and write the file; with ``--only`` the other lines stay."""
    sessions = {} if complete else dict(recorded)
    for scenario in scenarios:
        session = record(scenario)
        sessions[session["id"]] = session
        turns = sum(message["role"] == "assistant" for message in session["messages"])
        print(f"{session['id']}: {turns} turns, {len(line(session).encode()):,} bytes")
    text = "".join(line(sessions[name]) for name in sorted(sessions))
    output.write_text(text, encoding="utf-8")
    print(f"{output}: {len(sessions)} sessions, {len(text.encode()):,} bytes")


def main(arguments: list[str] | None = None) -> int:
    """The command line; 0 when all went well, 1 when a check found differences, 2 on an error."""
    parser = argparse.ArgumentParser(description="Record the agent sessions by running them.")
    parser.add_argument("--only", metavar="ID", action="append", help="only this one (repeatable)")
    parser.add_argument("--scenarios", type=Path, default=SCENARIOS, help="folder of TOML files")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="JSONL file to write or check")
    parser.add_argument("--check", action="store_true", help="compare with the file, write nothing")
    options = parser.parse_args(arguments)
    try:
        scenarios = select(options.scenarios, options.only)
        recorded = read_sessions(options.output)
        if options.check:
            return 1 if check(scenarios, recorded, not options.only) else 0
        write(scenarios, recorded, not options.only, options.output)
    except ScenarioError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
