"""The tools an agent scenario can call, each run for real in a throw-away workspace.

A tool is a plain function ``(workspace, **arguments) -> text``.  Commands run with the workspace as
current folder, a small fixed environment and a time limit; what they print is normalised (see
``normalise``) so that recording a scenario twice gives the same text.

The tools are not a sandbox: ``bash`` and ``python`` run whatever the scenario says.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import sysconfig
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TIME_LIMIT_S = 10.0
OUTPUT_LIMIT_CHARS = 6_000
SEARCH_LIMIT_LINES = 80
FIXED_DATE = "2024-03-04T09:00:00+00:00"

# Run by the sql tool in its own process, so that a runaway query meets the time limit.
SQL_RUNNER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("PRAGMA foreign_keys = ON")
try:
    cursor = connection.execute(sys.stdin.read())
    rows = cursor.fetchall()
    connection.commit()
except (sqlite3.Error, sqlite3.Warning) as error:
    sys.exit(f"{type(error).__name__}: {error}")
if cursor.description is None:
    print(f"ok, {max(cursor.rowcount, 0)} rows changed")
else:
    print(" | ".join(column[0] for column in cursor.description))
    for row in rows:
        print(" | ".join("NULL" if value is None else str(value) for value in row))
    print(f"({len(rows)} row{'' if len(rows) == 1 else 's'})")
"""


class ToolError(Exception):
    """A call that a tool refuses; its text is the tool's result, as a model would see it."""


@dataclass(frozen=True)
class Workspace:
    """A throw-away folder: ``root/workspace`` for the files, ``root/home`` and ``root/tmp``."""

    root: Path
    database: str = "data.db"
    # Process groups that outlived their call (servers started with "&"), to be ended at the close.
    groups: list[int] = field(default_factory=list)

    @property
    def work(self) -> Path:
        """The folder that the tools see as ``/workspace``."""
        return self.root / "workspace"

    def path(self, name: str) -> Path:
        """The file of that name (relative, or below ``/workspace``); refuses one outside."""
        relative = re.sub(r"^/workspace/?", "", name) or "."
        path = (self.work / relative).resolve()
        if not path.is_relative_to(self.work.resolve()):
            raise ToolError(f"error: {name} is outside the workspace")
        return path

    def close(self) -> None:
        """End the processes that calls left running in the background."""
        while self.groups:
            kill_group(self.groups.pop())


def kill_group(group: int, signal_number: int = signal.SIGKILL) -> bool:
    """Signal a process group; False when nothing is left of it."""
    try:
        os.killpg(group, signal_number)
    except ProcessLookupError:
        return False
    return True


def environment(workspace: Workspace) -> dict[str, str]:
    """The whole environment of a command: nothing of the caller's, no clock, no random seed."""
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(workspace.root / "home"),
        "TMPDIR": str(workspace.root / "tmp"),
        "USER": "agent",
        "LC_ALL": "C",
        "TZ": "UTC",
        "TERM": "dumb",
        "COLUMNS": "80",
        "PYTHONHASHSEED": "0",
        "PYTHONUTF8": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "-p no:cacheprovider",
        "GIT_AUTHOR_NAME": "Sam Weaver",
        "GIT_AUTHOR_EMAIL": "sam@example.org",
        "GIT_AUTHOR_DATE": FIXED_DATE,
        "GIT_COMMITTER_NAME": "Sam Weaver",
        "GIT_COMMITTER_EMAIL": "sam@example.org",
        "GIT_COMMITTER_DATE": FIXED_DATE,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "init.defaultBranch",
        "GIT_CONFIG_VALUE_0": "main",
        "GIT_CONFIG_KEY_1": "core.pager",
        "GIT_CONFIG_VALUE_1": "cat",
        "GIT_CEILING_DIRECTORIES": str(workspace.root),
    }


def normalise(text: str, workspace: Workspace) -> str:
    """Replace what differs from run to run: folders, elapsed seconds, object addresses."""
    for real, shown in (
        (workspace.work, "/workspace"),
        (workspace.root / "home", "/home/agent"),
        (workspace.root / "tmp", "/tmp"),
        (sysconfig.get_path("purelib"), "/usr/lib/python3/site-packages"),
        (sysconfig.get_path("stdlib"), "/usr/lib/python3"),
    ):
        text = text.replace(str(real), shown)
    text = re.sub(r"\bin \d+\.\d+s\b", "in 0.10s", text)
    return re.sub(r"\bat 0x[0-9a-f]{8,16}\b", "at 0x7f0000000000", text)


def cut(text: str, limit: int = OUTPUT_LIMIT_CHARS) -> str:
    """The first ``limit`` characters, with a note of how many were left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[... {len(text) - limit} characters left out]"


def execute(workspace: Workspace, command: list[str], stdin: str = "") -> str:
    """Run a command; what it printed on both streams, and its exit code unless 0."""
    # Files and not pipes: a server left in the background would hold a pipe open for ever.
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as source:
        source.write(stdin.encode())
        source.seek(0)
        process = subprocess.Popen(
            command,
            cwd=workspace.work,
            env=environment(workspace),
            stdin=source,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(TIME_LIMIT_S)
            note = f"[exit code {code}]" if code else ""
        except subprocess.TimeoutExpired:
            kill_group(process.pid)
            process.wait()
            note = f"[stopped after {TIME_LIMIT_S:.0f} s]"
        if kill_group(process.pid, 0):
            workspace.groups.append(process.pid)
        output.seek(0)
        text = output.read().decode("utf-8", "replace").rstrip("\n")
    return "\n".join(part for part in (text, note) if part) or "(no output)"


def bash(workspace: Workspace, command: str) -> str:
    """Run a shell command."""
    return execute(workspace, ["bash", "-c", command])


def python(workspace: Workspace, code: str) -> str:
    """Run Python code."""
    return execute(workspace, [sys.executable, "-"], code)


def run_tests(workspace: Workspace, args: str = "") -> str:
    """Run pytest."""
    return execute(workspace, ["bash", "-c", f"python -m pytest -q --no-header {args}"])


def sql(workspace: Workspace, query: str) -> str:
    """Run one statement against the scenario's database."""
    database = workspace.path(workspace.database)
    return execute(workspace, [sys.executable, "-c", SQL_RUNNER, str(database)], query)


def read_file(workspace: Workspace, path: str, start: int = 1, end: int = 0) -> str:
    """Lines ``start`` to ``end`` (1-based, both included; 0: to the last), with their numbers."""
    lines = read_text(workspace, path).splitlines()
    shown = range(max(start, 1), min(end or len(lines), len(lines)) + 1)
    return "\n".join(f"{number:>4}  {lines[number - 1]}" for number in shown) or "(no lines)"


def read_text(workspace: Workspace, path: str) -> str:
    """A file's text, or the refusal a model would see."""
    try:
        return workspace.path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ToolError(f"error: {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ToolError(f"error: {path} is not UTF-8 text: {error}") from error


def write_file(workspace: Workspace, path: str, content: str) -> str:
    """Create or replace a file."""
    target = workspace.path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(content, encoding="utf-8")
    return f"wrote {path}: {len(content.splitlines())} lines, {len(content.encode())} bytes"


def edit_file(workspace: Workspace, path: str, old: str, new: str) -> str:
    """Replace the one place where ``old`` stands."""
    text = read_text(workspace, path)
    count = text.count(old)
    if count != 1:
        raise ToolError(f"error: the old text occurs {count} times in {path}, expected once")
    workspace.path(path).write_text(text.replace(old, new), encoding="utf-8")
    line = text[: text.index(old)].count("\n") + 1
    return f"edited {path} at line {line}"


def list_dir(workspace: Workspace, path: str = ".") -> str:
    """The entries of a folder: names with sizes in bytes, folders with a slash."""
    folder = workspace.path(path)
    if not folder.is_dir():
        raise ToolError(f"error: {path} is not a folder")
    entries = sorted(folder.iterdir())
    lines = [f"{e.name}/" if e.is_dir() else f"{e.name}  ({e.stat().st_size} B)" for e in entries]
    return "\n".join(lines) or "(empty)"


def search(workspace: Workspace, pattern: str, path: str = ".") -> str:
    """Lines that match a regular expression, as ``file:line: text``."""
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise ToolError(f"error: bad pattern: {error}") from error
    top = workspace.path(path)
    files = [top] if top.is_file() else sorted(f for f in top.rglob("*") if f.is_file())
    found: list[str] = []
    for file in files:
        name = file.relative_to(workspace.work.resolve())
        if name.parts[0] == ".git":
            continue
        content = file.read_bytes()
        if b"\0" in content:
            continue  # not text
        lines = content.decode("utf-8", "replace").splitlines()
        found += [f"{name}:{i}: {t}" for i, t in enumerate(lines, 1) if expression.search(t)]
    if len(found) > SEARCH_LIMIT_LINES:
        left = len(found) - SEARCH_LIMIT_LINES
        found = [*found[:SEARCH_LIMIT_LINES], f"[... {left} more matches]"]
    return "\n".join(found) or "no matches"


def http_get(workspace: Workspace, url: str) -> str:
    """The status, content type and body of a page served on this machine."""
    if not re.match(r"http://127\.0\.0\.1:\d+/", url):
        raise ToolError("error: only http://127.0.0.1:PORT/ addresses are allowed")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=TIME_LIMIT_S) as reply:
            return describe_reply(
                reply.status, reply.reason, reply.headers["Content-Type"], reply.read()
            )
    except urllib.error.HTTPError as error:
        with error:
            return describe_reply(
                error.code, error.reason, error.headers["Content-Type"], error.read()
            )
    except (urllib.error.URLError, OSError) as error:
        raise ToolError(f"error: {error}") from error


def describe_reply(status: int, reason: str, kind: str | None, body: bytes) -> str:
    """An HTTP reply as text, without the headers that carry the time or a version."""
    return f"HTTP {status} {reason}\nContent-Type: {kind}\n\n{body.decode('utf-8', 'replace')}"


@dataclass(frozen=True)
class Tool:
    """A function with its description and parameters: name -> (JSON type, what it is)."""

    function: Callable[..., str]
    description: str
    parameters: dict[str, tuple[str, str]]
    required: tuple[str, ...]

    def definition(self) -> dict[str, Any]:
        """The tool in the form of an OpenAI function definition."""
        properties = {
            name: {"type": kind, "description": text}
            for name, (kind, text) in self.parameters.items()
        }
        schema = {"type": "object", "properties": properties, "required": list(self.required)}
        function = {
            "name": self.function.__name__,
            "description": self.description,
            "parameters": schema,
        }
        return {"type": "function", "function": function}


def _tool(function: Callable[..., str], text: str, optional: int, **names: str) -> Tool:
    """A tool whose last ``optional`` parameters may be left out; start and end are integers."""
    kinds = {name: "integer" if name in ("start", "end") else "string" for name in names}
    parameters = {name: (kinds[name], what) for name, what in names.items()}
    return Tool(function, text, parameters, tuple(names)[: len(names) - optional])


_PATH = "Path relative to the workspace."
TOOLS: dict[str, Tool] = {
    tool.function.__name__: tool
    for tool in (
        _tool(
            bash,
            "Run a shell command in the workspace and return what it prints.",
            0,
            command="The command line.",
        ),
        _tool(
            python,
            "Run a piece of Python 3 code and return what it prints.",
            0,
            code="The source code.",
        ),
        _tool(
            run_tests,
            "Run the project's tests with pytest.",
            1,
            args="Extra pytest arguments: files, -k, -x, -v.",
        ),
        _tool(sql, "Run one SQL statement on the SQLite database.", 0, query="The statement."),
        _tool(
            read_file,
            "Read a text file, with line numbers.",
            2,
            path=_PATH,
            start="First line, counted from 1.",
            end="Last line, included.",
        ),
        _tool(
            write_file,
            "Create a file or replace its whole content.",
            0,
            path=_PATH,
            content="The new content.",
        ),
        _tool(
            edit_file,
            "Replace a piece of text that occurs exactly once in a file.",
            0,
            path=_PATH,
            old="The text to replace.",
            new="The text to put there.",
        ),
        _tool(list_dir, "List the entries of a folder with their sizes.", 1, path=_PATH),
        _tool(
            search,
            "Find the lines that match a regular expression.",
            1,
            pattern="A Python regular expression.",
            path="File or folder to look in.",
        ),
        _tool(
            http_get,
            "Fetch a page from a server on this machine.",
            0,
            url="An address starting with http://127.0.0.1:PORT/.",
        ),
    )
}


def call(workspace: Workspace, name: str, arguments: Mapping[str, Any]) -> str:
    """Run a tool: its normalised and cut result, or the text of its refusal."""
    try:
        text = TOOLS[name].function(workspace, **arguments)
    except ToolError as error:
        text = str(error)
    return cut(normalise(text, workspace))
